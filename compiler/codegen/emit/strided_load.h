#pragma once

#include <cstdint>
#include <functional>

#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// result[i] = element i * stride for i < active, the first of them in the lanes beyond: every stride-th element of
/// neighbouring vectors, one shuffle for each vector after the first. Nothing outside the first and the last element
/// used is touched. `load(offset, count)` gives `lanes` elements from `offset` on, of which `count` exist.
/// (Not the last of them: LLVM's instruction selection has no end for some comparisons of bytes picked so.)
mlir::Value loadStrided(mlir::OpBuilder& builder, int64_t stride, int lanes, int active,
                        const std::function<mlir::Value(int64_t offset, int count)>& load);

}  // namespace tessera::compiler::codegen
