#pragma once

#include "compiler/interpreter/array.h"

namespace tessera::compiler::interpreter {

/// Parameters of random test inputs.
struct InputRange {
  uint64_t seed = 1;
  double low = -1, high = 1;   ///< floating point, uniform, in single precision
  int64_t integer_low = -100;  ///< for integers wider than 8 bits, inclusive; 8-bit integers take every value, i1 both
  int64_t integer_high = 99;
};

/// Equal arguments give equal arrays.
Array randomArray(Element element, llvm::ArrayRef<int64_t> shape, const InputRange& range);

/// Ranges to try in order until no access is out of bounds, since integers may be used as indices.
std::vector<InputRange> inputRanges(uint64_t seed);

}  // namespace tessera::compiler::interpreter
