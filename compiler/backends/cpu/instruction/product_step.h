#pragma once

#include <string>

#include "mlir/IR/Builders.h"

namespace tessera::compiler {
struct TileProduct;
}

namespace tessera::compiler::codegen {

/// Evaluates the body of a statement sum += x * y with an instruction of the target on whole vectors, instead of
/// evaluating the body's operations one by one (which become multiply-adds). Created by the instruction's rewriteFor().
class ProductInstructionStep {
 public:
  virtual ~ProductInstructionStep() = default;
  /// The target's name for the instruction.
  virtual const std::string& name() const = 0;
  /// Lanes of the vectors that it takes; vectors of other widths use the statement's body. 0: it takes no vectors.
  virtual int lanes() const = 0;
  /// Registers that a step of a tile with `vectors` vectors takes in addition to the sums.
  virtual int64_t registers(int64_t vectors) const { return vectors + 1; }
  /// Instructions of such a step, including loads.
  virtual int64_t instructions(int64_t rows, int64_t vectors) const { return rows * vectors + rows + vectors; }
  /// The tile instruction, if it works on whole tiles, which a kernel loads and stores; null if it works on vectors,
  /// through emit().
  virtual const TileProduct* tiles() const { return nullptr; }
  /// sum + the products of one step. The values are vectors of lanes() elements of the statement's operand types.
  virtual mlir::Value emit(mlir::OpBuilder& builder, mlir::Value first, mlir::Value second, mlir::Value sum) const = 0;

  /// If emit() is correct for some values of the operands only: the step for all other values. Null if emit() is always
  /// correct.
  virtual const ProductInstructionStep* fallback() const { return nullptr; }
  /// For steps with a fallback(): an i1 that is true if emit() is correct for these vectors of the second operand and
  /// every first operand.
  virtual mlir::Value isCorrectFor(mlir::OpBuilder& /*builder*/, llvm::ArrayRef<mlir::Value> /*seconds*/) const {
    return {};
  }
};

}  // namespace tessera::compiler::codegen
