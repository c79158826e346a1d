#pragma once

#include "compiler/backends/cpu/nest.h"

namespace tessera::compiler::codegen {

/// The argument of the workload whose memory the result `root` may share (kMayAlias of ir/workload.h); null: none.
/// Each element is written after all reads of the argument at the same place; these reads are in the statement that
/// writes it (checked by access_check).
mlir::Value overwrittenArgument(mlir::Value root);

/// The result that may share the memory of the argument `root`; null: none.
mlir::Value resultOverwriting(mlir::Value root);

/// Whether an output of the nest may share the memory of one of its inputs.
bool mayOverwriteInput(const Nest& nest);

}  // namespace tessera::compiler::codegen
