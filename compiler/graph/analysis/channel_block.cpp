#include "compiler/graph/analysis/channel_block.h"

#include <numeric>

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {

using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;

namespace {

llvm::SmallVector<mlir::ReassociationIndices> identityGroups(int64_t rank) {
  llvm::SmallVector<mlir::ReassociationIndices> groups;
  for (int64_t d = 0; d < rank; ++d) groups.push_back({d});
  return groups;
}

bool isTransposition(llvm::ArrayRef<int64_t> permutation, llvm::ArrayRef<int64_t> shape) {
  int64_t last = -1;  // dimensions of extent one may go anywhere
  for (int64_t d : permutation) {
    if (shape[d] == 1) continue;
    if (d < last) return true;
    last = d;
  }
  return false;
}

}  // namespace

Value splitDimension(OpBuilder& builder, Location location, Value value, int64_t dim, int64_t inner) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  auto groups = identityGroups(type.getRank());
  groups[dim].push_back(dim + 1);
  for (int64_t d = dim + 1; d < type.getRank(); ++d) groups[d] = {d + 1};
  shape[dim] /= inner;
  shape.insert(shape.begin() + dim + 1, inner);
  return mlir::tensor::ExpandShapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()),
                                             value, groups);
}

Value mergeDimensions(OpBuilder& builder, Location location, Value value, int64_t dim) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  auto groups = identityGroups(type.getRank() - 1);
  groups[dim].push_back(dim + 1);
  for (int64_t d = dim + 1; d < type.getRank() - 1; ++d) groups[d] = {d + 1};
  return mlir::tensor::CollapseShapeOp::create(builder, location, value, groups);
}

Value transpose(OpBuilder& builder, Location location, Value value, llvm::ArrayRef<int64_t> permutation) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  const auto rank = static_cast<unsigned>(type.getRank());
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<mlir::AffineExpr> read(rank);
  for (auto [position, source] : llvm::enumerate(permutation)) {
    shape.push_back(type.getDimSize(source));
    read[source] = builder.getAffineDimExpr(position);
  }
  auto result_type = RankedTensorType::get(shape, type.getElementType());
  if (std::is_sorted(permutation.begin(), permutation.end())) return value;
  Value empty = mlir::tensor::EmptyOp::create(builder, location, shape, type.getElementType());
  llvm::SmallVector<mlir::utils::IteratorType> loops(rank, mlir::utils::IteratorType::parallel);
  llvm::SmallVector<mlir::AffineMap> maps = {mlir::AffineMap::get(rank, 0, read, builder.getContext()),
                                             builder.getMultiDimIdentityMap(rank)};
  return mlir::linalg::GenericOp::create(builder, location, mlir::TypeRange{result_type}, mlir::ValueRange{value},
                                         mlir::ValueRange{empty}, maps, loops,
                                         [](OpBuilder& inner, Location at, mlir::ValueRange operands) {
                                           mlir::linalg::YieldOp::create(inner, at, operands[0]);
                                         })
      .getResult(0);
}

Value transposeActivation(OpBuilder& builder, Location location, Value value, llvm::ArrayRef<int64_t> permutation) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  if (!isTransposition(permutation, type.getShape())) {
    llvm::SmallVector<int64_t> shape;
    for (int64_t d : permutation) shape.push_back(type.getDimSize(d));
    if (llvm::ArrayRef<int64_t>(shape) == type.getShape()) return value;
    mlir::ReassociationIndices all(type.getRank());
    std::iota(all.begin(), all.end(), 0);
    Value flat = mlir::tensor::CollapseShapeOp::create(builder, location, value,
                                                       llvm::ArrayRef<mlir::ReassociationIndices>{all});
    return mlir::tensor::ExpandShapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()),
                                               flat, llvm::ArrayRef<mlir::ReassociationIndices>{all});
  }
  Value result = transpose(builder, location, value, permutation);
  if (auto* op = result.getDefiningOp()) op->setAttr(kLayoutTransform, builder.getUnitAttr());
  return result;
}

Value padDimension(OpBuilder& builder, Location location, Value value, int64_t dim, int64_t extent) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  if (type.getDimSize(dim) == extent) return value;
  llvm::SmallVector<int64_t> shape(type.getShape());
  llvm::SmallVector<mlir::OpFoldResult> low(shape.size(), builder.getIndexAttr(0));
  llvm::SmallVector<mlir::OpFoldResult> high = low;
  high[dim] = builder.getIndexAttr(extent - shape[dim]);
  shape[dim] = extent;
  Value zero = mlir::arith::ConstantOp::create(builder, location, builder.getZeroAttr(type.getElementType()));
  return mlir::tensor::PadOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()), value, low,
                                     high, zero);
}

Value refill(OpBuilder& builder, Value init, llvm::ArrayRef<int64_t> shape) {
  // A view of a fill counts as the fill.
  while (init.getDefiningOp<mlir::tensor::ExpandShapeOp>() || init.getDefiningOp<mlir::tensor::CollapseShapeOp>()) {
    init = init.getDefiningOp()->getOperand(0);
  }
  auto type = mlir::cast<RankedTensorType>(init.getType());
  if (init.getDefiningOp<mlir::tensor::EmptyOp>()) {
    return mlir::tensor::EmptyOp::create(builder, init.getLoc(), shape, type.getElementType());
  }
  auto fill = init.getDefiningOp<mlir::linalg::FillOp>();
  if (!fill) return {};
  Value empty = mlir::tensor::EmptyOp::create(builder, init.getLoc(), shape, type.getElementType());
  return mlir::linalg::FillOp::create(builder, init.getLoc(), fill.getInputs()[0], empty).getResult(0);
}

}  // namespace tessera::compiler
