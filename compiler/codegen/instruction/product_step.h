#pragma once

#include <string>

#include "mlir/IR/Builders.h"

namespace tessera::compiler {
struct TileProduct;
}

namespace tessera::compiler::codegen {

/// How the body of a statement sum += x * y is evaluated where an instruction of the target does it for whole vectors,
/// instead of the body's operations one by one (which become multiply-adds). Made by the instruction's takeUp().
class ProductStep {
 public:
  virtual ~ProductStep() = default;
  /// Of the instruction, as the target calls it.
  virtual const std::string& name() const = 0;
  /// Of the vectors that it works on; others are left to the statement's body. 0: it works on none.
  virtual int lanes() const = 0;
  /// Registers beside the sums that a step of a tile of so many vectors takes.
  virtual int64_t registers(int64_t vectors) const { return vectors + 1; }
  /// Instructions of such a step, loads included.
  virtual int64_t instructions(int64_t rows, int64_t vectors) const { return rows * vectors + rows + vectors; }
  /// The instruction, where it works on whole tiles, which are a kernel's to move; null: on vectors, by emit().
  virtual const TileProduct* tiles() const { return nullptr; }
  /// sum + the products of one step. Values: vectors of lanes() elements as the statement's operands have them.
  virtual mlir::Value emit(mlir::OpBuilder& builder, mlir::Value first, mlir::Value second, mlir::Value sum) const = 0;

  /// The step for any values, where emit() is right for some only; null: it is right for all.
  virtual const ProductStep* general() const { return nullptr; }
  /// Under general(): whether emit() is right for these vectors of the second operand, whatever the first ones are
  /// (i1).
  virtual mlir::Value holdsFor(mlir::OpBuilder& /*builder*/, llvm::ArrayRef<mlir::Value> /*seconds*/) const {
    return {};
  }
};

}  // namespace tessera::compiler::codegen
