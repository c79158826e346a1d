#include "compiler/graph/analysis/each_element.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

using mlir::OpBuilder;
using mlir::Value;

Value mapElements(OpBuilder& b, mlir::Location location, Value tensor, mlir::Type to,
                  llvm::function_ref<Value(OpBuilder&, mlir::Location, Value)> body) {
  const llvm::ArrayRef<int64_t> shape = mlir::cast<mlir::RankedTensorType>(tensor.getType()).getShape();
  auto type = mlir::RankedTensorType::get(shape, to);
  Value empty = mlir::tensor::EmptyOp::create(b, location, shape, to);
  const llvm::SmallVector<mlir::AffineMap> maps(2, b.getMultiDimIdentityMap(type.getRank()));
  const llvm::SmallVector<mlir::utils::IteratorType> loops(type.getRank(), mlir::utils::IteratorType::parallel);
  return mlir::linalg::GenericOp::create(b, location, mlir::TypeRange{type}, mlir::ValueRange{tensor},
                                         mlir::ValueRange{empty}, maps, loops,
                                         [&](OpBuilder& inner, mlir::Location at, mlir::ValueRange v) {
                                           mlir::linalg::YieldOp::create(inner, at, body(inner, at, v[0]));
                                         })
      .getResult(0);
}

Value flipSignBit(OpBuilder& b, mlir::Location location, Value element) {
  Value bit = mlir::arith::ConstantOp::create(b, location, b.getI8IntegerAttr(-128));
  return mlir::arith::XOrIOp::create(b, location, element, bit);
}

}  // namespace tessera::compiler
