#pragma once

#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// The element types of an instruction that adds products of two operands to sums.
struct ProductFactors {
  v1::DataType first = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType second = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType sum = v1::DATA_TYPE_UNSPECIFIED;
  bool operator==(const ProductFactors&) const = default;
};

/// The factors of all such instructions of a chip, each once, in the order of instructionsOf().
std::vector<ProductFactors> productFactors(const v1::Target& target);

/// The type to which products of f32 must round their factors so that an instruction of the chip computes them with f32
/// sums: F16, else BF16. Unspecified if an instruction multiplies f32, or none adds to sums of f32.
v1::DataType roundedFactors(const v1::Target& target);

}  // namespace tessera::compiler
