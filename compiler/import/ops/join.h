#pragma once

#include "compiler/import/bounded.h"

namespace tessera::compiler {

/// Tensors side by side along `axis`, where those that have an extent end with it. They fit but for that dimension, and
/// what has none of it is left out; of the result's extents only that of `axis` is set.
Tensor joined(Emitter& e, llvm::ArrayRef<Tensor> parts, int64_t axis);

}  // namespace tessera::compiler
