#pragma once

#include "compiler/import/bounded_dimensions.h"

namespace tessera::compiler {

/// Concatenates tensors along `axis`; a part with an extent ends at its extent. The other dimensions must agree, and
/// empty parts are dropped. Sets only the extent of `axis` of the result.
Tensor joined(Emitter& e, llvm::ArrayRef<Tensor> parts, int64_t axis);

}  // namespace tessera::compiler
