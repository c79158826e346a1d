#include "compiler/backends/cpu/emit/transpose.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {

llvm::SmallVector<mlir::Value> transposeSquare(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> rows) {
  const mlir::Location loc = builder.getUnknownLoc();
  llvm::SmallVector<mlir::Value> square(rows);
  const int64_t lanes = static_cast<int64_t>(rows.size());
  for (int64_t width = lanes / 2; width >= 1; width /= 2) {
    // lanes of the pair's concatenation that the first and the second row receive
    llvm::SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const bool odd = lane / width % 2 == 1;
      low.push_back(odd ? lanes + lane - width : lane);
      high.push_back(odd ? lanes + lane : lane + width);
    }
    for (int64_t row = 0; row < lanes; ++row) {
      if (row / width % 2 == 1) continue;
      mlir::Value first = square[row], second = square[row + width];
      square[row] = mlir::vector::ShuffleOp::create(builder, loc, first, second, low);
      square[row + width] = mlir::vector::ShuffleOp::create(builder, loc, first, second, high);
    }
  }
  return square;
}

}  // namespace tessera::compiler::codegen
