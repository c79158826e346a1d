#pragma once

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"

/// Products of 8-bit integers and of bf16 on instructions that add up groups of neighbours (target/dot_product.h): the
/// second instance of the micro-kernel beside the multiply-add. A group of four or two elements is one element of 32
/// bits to everything that tiles, packs, blocks and fetches; only the body of the product is another.
namespace tessera::compiler::codegen {

/// Turns the nest's first statement, sum += x * y over 8-bit or bf16 x and y, to groups along the loop that both walk
/// element by element: that loop steps from group to group, access functions count groups, and the statement's body
/// adds up one group. Operands stand in the instruction's order afterwards. Why not, or empty: the nest is changed
/// then. Nothing is changed otherwise.
std::string useDotProduct(mlir::OpBuilder& builder, Nest& nest, const DotProduct& instruction);

/// Of the machine's instructions the first that each nest of the phases not yet planned can use.
void chooseDotProducts(mlir::func::FuncOp func, PhaseList& list, const Chip& chip);

/// Those that the tree's leaves name. Errors: INVALID_SCHEDULE with the leaf's path, and why, where the target has no
/// such instruction or the nest cannot use it.
absl::Status followDotProducts(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedTree& tree);

/// sum + the group's products, on vectors of `lanes` groups. Values: vectors of `lanes` elements of 32 bits.
mlir::Value emitDotProduct(mlir::OpBuilder& builder, const GroupedProduct& product, mlir::Value first,
                           mlir::Value second, mlir::Value sum);

}  // namespace tessera::compiler::codegen
