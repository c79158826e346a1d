#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"

/// Instructions of the target that compute steps of products: the multiply-add is what bodies become where there is no
/// other. A kind of instructions is a file of this room and a row of kinds() in registry.cpp.
namespace tessera::compiler::codegen {

class ProductInstruction {
 public:
  /// sum[m, n] += first[m, k] * second[k, n]: what one instruction does.
  struct Iterations {
    int64_t m = 1, n = 1, k = 1;
  };

  virtual ~ProductInstruction() = default;
  /// As the target calls it.
  virtual const std::string& name() const = 0;
  virtual Iterations iterations() const = 0;
  /// Turns the first statement of a nest sum += x * y to steps of this instruction: the loop that becomes k counts
  /// steps, and so do access functions, whose elements are what one step takes (operands interleaved along k);
  /// Statement::step is set, operands stand in the instruction's order, and the body computes one step for lanes that
  /// are no whole vector. Why not, or empty: the nest is changed then. Nothing is changed otherwise.
  virtual std::string takeUp(mlir::OpBuilder& builder, Nest& nest, const Chip& chip) const = 0;
};

/// Those that code for this chip can be made of, of each kind the one that does most first.
std::vector<std::unique_ptr<const ProductInstruction>> productInstructions(const Chip& chip);

/// Each nest of the phases not yet planned takes up an instruction: of each kind the first that it can use, of several
/// kinds the one whose kernel takes the fewest cycles.
void chooseInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip);

/// Nests take up those that the tree's leaves name. Errors: INVALID_SCHEDULE with the leaf's path, and why, where the
/// target has no such instruction or the nest cannot use it.
absl::Status followInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedTree& tree);

}  // namespace tessera::compiler::codegen
