#pragma once

#include <cstdint>
#include <functional>

#include "mlir/IR/Builders.h"

namespace tessera::compiler::codegen {

/// result[i] = element i * stride for i < active; lanes at and after `active` hold element 0. Loads whole vectors and
/// picks every stride-th element, with one shuffle for each vector after the first. Touches nothing outside the first
/// and the last element used. `load(offset, count)` returns `lanes` elements starting at `offset`, of which `count`
/// exist. (The inactive lanes do not repeat the last element, because LLVM's instruction selection does not terminate
/// for some comparisons of bytes picked in that way.)
mlir::Value loadStrided(mlir::OpBuilder& builder, int64_t stride, int lanes, int active,
                        const std::function<mlir::Value(int64_t offset, int count)>& load);

}  // namespace tessera::compiler::codegen
