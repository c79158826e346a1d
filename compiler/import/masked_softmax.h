#pragma once

#include "compiler/import/bounded_dimensions.h"

namespace tessera::compiler {

/// Whether the elements of `x` beyond the extent of its last dimension are zeros in every row that counts: `x` is a
/// softmax whose scores are masked there. A row that counts has an unmasked score. In a row without any, or with a NaN
/// maximum, all elements are NaN with or without the mask.
bool isMaskedSoftmax(const Node& node, const Tensor& x);

}  // namespace tessera::compiler
