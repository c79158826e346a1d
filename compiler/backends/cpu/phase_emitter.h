#pragma once

#include "absl/status/status.h"
#include "compiler/backends/cpu/phases.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Attribute of functions that need the full scalar optimizer: plain loops, not vector code.
inline constexpr char kScalarLoops[] = "tessera-scalar-loops";

/// Emits every phase into `module`: a wrapper with the signature of tessera_kernel_fn, which loads the pointers of the
/// buffers it needs, and an internal function on non-aliasing pointers that does the work. Fills info.phases,
/// workspace_bytes, scratch_bytes and strategy.
absl::Status emitPhases(mlir::func::FuncOp func, const PhaseList& list, const std::string& symbol, const Chip& chip,
                        mlir::ModuleOp module, v1::KernelInfo& info);

}  // namespace tessera::compiler::codegen
