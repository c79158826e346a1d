#pragma once

#include "absl/status/statusor.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "compiler/codegen/tree/leaf.h"
#include "mlir/IR/Builders.h"

/// Packing of operands to panels: creates the copying nests and plans them by analysis or from a leaf.
namespace tessera::compiler::codegen {

/// A nest that copies an operand to panels, with its plan.
struct Copy {
  Nest nest;
  TilePlan plan;
};

/// Redirects input `wanted.input` of `nest` to panels in a new buffer. Returns the nest that fills them and its plan,
/// which is taken from `leaf` if given. `number`: of the nest. Errors: INVALID_SCHEDULE, see packPlanOf.
absl::StatusOr<Copy> packInput(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& wanted,
                               int number, const Chip& chip, const Leaf* leaf);

/// Redirects an operand packed `within` blocks to panels of one block in a new buffer, which is returned, and adds its
/// copies to the plan.
absl::StatusOr<mlir::Value> packWithin(mlir::OpBuilder& builder, Nest& nest, TilePlan& plan,
                                       const PackedOperand& packed, int number, const Chip& chip, const Leaf* leaf);

}  // namespace tessera::compiler::codegen
