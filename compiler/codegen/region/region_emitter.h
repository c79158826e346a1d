#pragma once

#include "compiler/codegen/emit/loop_emitter.h"
#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Emits slices [lo, hi) (i64) of the region, one after another: the geometry of each is found by its numbers; nests
/// that do not depend on the last numbers run in the first slice that needs them, or the first of the range.
void emitRegion(mlir::OpBuilder& builder, const Region& region, const EmitContext& context, mlir::Value lo,
                mlir::Value hi);

}  // namespace tessera::compiler::codegen
