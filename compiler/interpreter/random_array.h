#pragma once

#include "compiler/interpreter/array.h"

namespace tessera::compiler::interpreter {

/// Where inputs to try with come from.
struct InputRange {
  uint64_t seed = 1;
  double low = -1, high = 1;   ///< floating point, uniform, in single precision
  int64_t integer_low = -100;  ///< integers wider than 8 bits, inclusive; those of 8 bits take every value, i1 both
  int64_t integer_high = 99;
};

/// Equal arguments give equal arrays.
Array randomArray(Element element, llvm::ArrayRef<int64_t> shape, const InputRange& range);

/// What to try one after another until no access leaves its tensor, for integers may be used as indices.
std::vector<InputRange> inputRanges(uint64_t seed);

}  // namespace tessera::compiler::interpreter
