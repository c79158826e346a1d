#pragma once

#include "compiler/import/bounded.h"

namespace tessera::compiler {

/// Whether the elements of `x` beyond the extent of its last dimension are zeros in every row that counts: a softmax
/// whose scores have been masked there, as its lowering leaves them, and a row that counts has one within. (A row
/// without any is no number; so is one of it whose maximum is none, with or without zeros beyond.)
bool isMaskedSoftmax(const Node& node, const Tensor& x);

}  // namespace tessera::compiler
