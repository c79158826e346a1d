#pragma once

#include "compiler/codegen/nest.h"

namespace tessera::compiler::codegen {

/// The argument of the workload whose memory the result `root` may have as well (kWrittenOver of ir/workload.h); null:
/// none. Its elements are written behind all reads of the argument's at the same place, which are in the statement that
/// writes them (access_check).
mlir::Value writtenOver(mlir::Value root);

/// The result that may have the memory of the argument `root`; null: none.
mlir::Value overwriterOf(mlir::Value root);

/// Whether an output of the nest may have the memory of what it reads.
bool isWrittenOver(const Nest& nest);

}  // namespace tessera::compiler::codegen
