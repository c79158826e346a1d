#pragma once

#include <string>

#include "mlir/IR/Builders.h"

namespace tessera::compiler {
struct TileProduct;
}

namespace tessera::compiler::codegen {

/// Multiplies small matrices that fill vector registers (smmla): one instruction takes several rows of results, several
/// steps of the sum, or both. Sums stay in the registers' layout while the sum runs; pack() and unpack() convert them
/// from and to one vector per row. `rows_from`: the input (0 or 1) that supplies rows and is the same for all lanes of
/// a vector; the other input supplies the columns, one per lane.
class MatrixProductStep {
 public:
  using Values = llvm::SmallVector<mlir::Value>;
  struct Shape {
    int rows = 1;   ///< rows of results in one register
    int steps = 1;  ///< steps of the sum that one instruction takes
  };

  virtual ~MatrixProductStep() = default;
  virtual Shape shape(int rows_from) const = 0;
  /// Registers with the sums of up to shape().rows rows, each a vector; missing rows are zeros.
  virtual Values pack(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> rows, int rows_from) const = 0;
  /// The sums of the first `rows` rows of these registers.
  virtual Values unpack(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> registers, int rows,
                        int rows_from) const = 0;
  /// Adds the products of up to shape().steps steps to the registers of pack(). `rows`: for each row, a vector of the
  /// input's elements, one per step. `columns`: for each step, a vector of the other input's elements, one per column.
  virtual void multiply(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> rows, llvm::ArrayRef<mlir::Value> columns,
                        int rows_from, llvm::MutableArrayRef<mlir::Value> registers) const = 0;
};

/// Evaluates the body of a statement sum += x * y with an instruction of the target on whole vectors, instead of
/// evaluating the body's operations one by one (which become multiply-adds). Created by the instruction's rewriteFor().
class ProductInstructionStep {
 public:
  virtual ~ProductInstructionStep() = default;
  /// The target's name for the instruction.
  virtual const std::string& name() const = 0;
  /// Lanes of the vectors that it takes; vectors of other widths use the statement's body. 0: it takes no vectors.
  virtual int lanes() const = 0;
  /// Registers with the sums of a tile.
  virtual int64_t sums(int64_t rows, int64_t vectors) const { return rows * vectors; }
  /// Registers that a step of a tile with `vectors` vectors takes in addition to the sums.
  virtual int64_t registers(int64_t vectors) const { return vectors + 1; }
  /// Instructions of such a step, including loads.
  virtual double instructions(int64_t rows, int64_t vectors) const {
    return static_cast<double>(rows * vectors + rows + vectors);
  }
  /// Issue slots for multiply-adds that such a step takes.
  virtual double multiplyAdds(int64_t rows, int64_t vectors) const { return static_cast<double>(rows * vectors); }
  /// Steps of the sum that one instruction takes.
  virtual int steps() const { return 1; }
  /// The tile instruction, if it works on whole tiles, which a kernel loads and stores; null if it works on vectors.
  virtual const TileProduct* tiles() const { return nullptr; }
  /// The matrix instruction, if it works on vectors of several rows or steps; null if it works through emit().
  virtual const MatrixProductStep* matrices() const { return nullptr; }
  /// Whether one instruction evaluates one step for one vector of sums, through emit().
  bool isByLane() const { return !tiles() && !matrices(); }
  /// sum + the products of one step. The values are vectors of lanes() elements of the statement's operand types. Only
  /// if isByLane().
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
