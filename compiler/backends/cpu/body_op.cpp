#include "compiler/backends/cpu/body_op.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {

mlir::linalg::LinalgOp bodyOp(
    mlir::OpBuilder& builder, mlir::Type element, int inputs,
    llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)> body) {
  return bodyOp(builder, element, inputs, 1, [&](mlir::OpBuilder& b, mlir::Location loc, mlir::ValueRange arguments) {
    return llvm::SmallVector<mlir::Value>{body(b, loc, arguments)};
  });
}

mlir::linalg::LinalgOp bodyOp(
    mlir::OpBuilder& builder, mlir::Type element, int inputs, int outputs,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)> body) {
  const mlir::AffineMap map = builder.getMultiDimIdentityMap(1);
  mlir::Value carrier =
      mlir::memref::AllocOp::create(builder, builder.getUnknownLoc(), mlir::MemRefType::get({1}, element));
  const llvm::SmallVector<mlir::Value> operands(inputs, carrier), results(outputs, carrier);
  const llvm::SmallVector<mlir::AffineMap> maps(inputs + outputs, map);
  return mlir::linalg::GenericOp::create(builder, builder.getUnknownLoc(), operands, results, maps,
                                         llvm::ArrayRef<mlir::utils::IteratorType>{mlir::utils::IteratorType::parallel},
                                         [&](mlir::OpBuilder& b, mlir::Location loc, mlir::ValueRange arguments) {
                                           mlir::linalg::YieldOp::create(b, loc, body(b, loc, arguments));
                                         });
}

}  // namespace tessera::compiler::codegen
