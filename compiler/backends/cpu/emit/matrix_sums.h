#pragma once

#include <vector>

#include "compiler/backends/cpu/emit/tile_memory.h"

namespace tessera::compiler::codegen {

/// The sums of a tile in the registers of an instruction that multiplies small matrices (MatrixProductStep). Points of
/// the tile that read the same columns supply the rows of one register; consecutive steps of the sum, of whatever loop,
/// supply the steps of one instruction.
class MatrixSums {
 public:
  using Values = llvm::SmallVector<mlir::Value>;

  /// Whether the nest's product has such an instruction and the plan suits it: vectors along a loop of one operand
  /// alone. Otherwise the body of the product is evaluated.
  static bool areUsedBy(const Nest& nest, const TilePlan& plan);
  /// Requires areUsedBy(). `points`: of the tile.
  MatrixSums(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, TileMemory& memory,
             const std::vector<Point>& points);

  /// One sum per point to registers, and back.
  Values pack(llvm::ArrayRef<mlir::Value> sums) const;
  Values unpack(llvm::ArrayRef<mlir::Value> registers) const;
  /// Adds the products of the step at the memory's offsets, once the instruction has all steps that it takes.
  void addStep(llvm::MutableArrayRef<mlir::Value> registers);
  /// Adds the products of the steps that are left. Call at the end of the unrolled steps.
  void flush(llvm::MutableArrayRef<mlir::Value> registers);

 private:
  /// Points that read the same columns, as many as one register has rows.
  struct Rows {
    llvm::SmallVector<size_t> points;
  };
  /// Operands of one step, for each element of rows_.
  struct Step {
    llvm::SmallVector<llvm::SmallVector<int64_t>> offsets;  ///< of the elements of its points' rows
    Values columns;
  };

  mlir::Value row(int64_t rows, int64_t point) const;

  mlir::OpBuilder& b_;
  const MatrixProductStep& product_;
  int rows_from_, lanes_;
  TileMemory& memory_;
  const std::vector<Point>& points_;
  std::vector<Rows> rows_;
  std::vector<Step> pending_;
};

}  // namespace tessera::compiler::codegen
