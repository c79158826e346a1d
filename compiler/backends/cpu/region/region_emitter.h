#pragma once

#include "compiler/backends/cpu/emit/loop_emitter.h"
#include "compiler/backends/cpu/region/region.h"

namespace tessera::compiler::codegen {

/// Emits a loop that runs slices [lo, hi) (i64) of the region in sequence. Each slice runs the code of the variant that
/// belongs to its number. A nest that does not depend on the last numbers runs in the first slice that needs it, or in
/// the first slice of the range.
void emitRegion(mlir::OpBuilder& builder, const Region& region, const EmitContext& context, mlir::Value lo,
                mlir::Value hi);

}  // namespace tessera::compiler::codegen
