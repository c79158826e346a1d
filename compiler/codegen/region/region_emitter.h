#pragma once

#include "compiler/codegen/emit/loop_emitter.h"
#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Emits slices [lo, hi) (i64) of the region in sequence. The slice numbers determine the geometry of each. A nest that
/// does not depend on the last numbers runs in the first slice that needs it, or in the first slice of the range.
void emitRegion(mlir::OpBuilder& builder, const Region& region, const EmitContext& context, mlir::Value lo,
                mlir::Value hi);

}  // namespace tessera::compiler::codegen
