#include "compiler/graph/plan/appended_rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::linalg::GenericOp;

std::optional<int64_t> integer(Value value) {
  llvm::APInt constant;
  if (!mlir::matchPattern(value, mlir::m_ConstantInt(&constant))) return std::nullopt;
  return constant.getSExtValue();
}

/// Whether the value is `length` - 1, or 0 where the length is 0.
bool isLastRow(Value value, mlir::BlockArgument length) {
  auto sub = value.getDefiningOp<mlir::arith::SubIOp>();
  if (!sub || integer(sub.getRhs()) != 1) return false;
  auto max = sub.getLhs().getDefiningOp<mlir::arith::MaxSIOp>();
  return max && readFrom(max.getLhs()) == length && integer(max.getRhs()) == 1;
}

/// Whether the index is the position along the loop, for each position below the length, which is at most `most`.
bool isPositionBelow(Value value, int64_t loop, mlir::BlockArgument length, int64_t most) {
  while (auto cast = value.getDefiningOp<mlir::arith::IndexCastOp>()) {
    if (isPosition(value, loop)) return true;
    value = cast.getIn();
  }
  if (auto min = value.getDefiningOp<mlir::arith::MinSIOp>()) {
    const std::optional<int64_t> bound = integer(min.getRhs());
    return (bound ? *bound >= most - 1 : isLastRow(min.getRhs(), length)) &&
           isPositionBelow(min.getLhs(), loop, length, most);
  }
  if (auto max = value.getDefiningOp<mlir::arith::MaxSIOp>()) {
    const std::optional<int64_t> bound = integer(max.getRhs());
    return bound && *bound <= 0 && isPositionBelow(max.getLhs(), loop, length, most);
  }
  return isPosition(value, loop);
}

bool isLoop(Value index, int64_t loop) {
  auto op = index.getDefiningOp<mlir::linalg::IndexOp>();
  return op && static_cast<int64_t>(op.getDim()) == loop;
}

/// Whether the index is the position along the loop between two bounds.
bool isClampedPosition(Value value, int64_t loop) {
  while (value && !isPosition(value, loop) && !isLoop(value, loop)) {
    mlir::Operation* op = value.getDefiningOp();
    if (!mlir::isa_and_nonnull<mlir::arith::IndexCastOp, mlir::arith::MinSIOp, mlir::arith::MaxSIOp>(op)) return false;
    value = op->getOperand(0);
  }
  return static_cast<bool>(value);
}

void eraseDead(mlir::Block& block) {
  for (mlir::Operation& op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (mlir::isOpTriviallyDead(&op)) op.erase();
}

}  // namespace

GenericOp returnedGeneric(mlir::func::FuncOp function) {
  mlir::Operation* end = function.getBody().front().getTerminator();
  if (end->getNumOperands() != 1) return {};
  auto op = end->getOperand(0).getDefiningOp<GenericOp>();
  if (!op || op.getNumResults() != 1 || op.getNumParallelLoops() != op.getNumLoops() ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return {};
  return op;
}

mlir::BlockArgument readFrom(Value scalar) {
  auto extract = scalar.getDefiningOp<mlir::tensor::ExtractOp>();
  return extract && extract.getIndices().empty() ? mlir::dyn_cast<mlir::BlockArgument>(extract.getTensor())
                                                 : mlir::BlockArgument();
}

bool isPosition(Value value, int64_t loop) {
  auto cast = value.getDefiningOp<mlir::arith::IndexCastOp>();
  return cast && isLoop(cast.getIn(), loop);
}

std::optional<RunTimeConcat> matchConcat(mlir::func::FuncOp function, mlir::BlockArgument past, int64_t dim) {
  GenericOp op = returnedGeneric(function);
  if (!op || op.getNumDpsInputs() != 0 || !past.hasOneUse()) return std::nullopt;
  auto select = op.getBody()->getTerminator()->getOperand(0).getDefiningOp<mlir::arith::SelectOp>();
  auto below = select ? select.getCondition().getDefiningOp<mlir::arith::CmpIOp>() : mlir::arith::CmpIOp();
  if (!below || below.getPredicate() != mlir::arith::CmpIPredicate::slt || !isPosition(below.getLhs(), dim))
    return std::nullopt;
  const mlir::BlockArgument length = readFrom(below.getRhs());
  auto element = select.getTrueValue().getDefiningOp<mlir::tensor::ExtractOp>();
  if (!length || !element || element.getTensor() != past) return std::nullopt;
  const auto shape = mlir::cast<mlir::RankedTensorType>(past.getType()).getShape();
  if (static_cast<int64_t>(shape.size()) != static_cast<int64_t>(op.getNumLoops())) return std::nullopt;
  for (auto [d, index] : llvm::enumerate(element.getIndices())) {
    const auto loop = static_cast<int64_t>(d);
    const bool same = loop == dim ? isPositionBelow(index, dim, length, shape[d])
                                  : isLoop(index, loop) || (shape[d] == 1 && integer(index) == 0);
    if (!same) return std::nullopt;
  }
  return RunTimeConcat{op, dim, past, length};
}

mlir::BlockArgument sourceOfRows(mlir::func::FuncOp function, int64_t dim) {
  GenericOp op = returnedGeneric(function);
  auto element = op ? op.getBody()->getTerminator()->getOperand(0).getDefiningOp<mlir::tensor::ExtractOp>()
                    : mlir::tensor::ExtractOp();
  if (!element || element.getTensor().getType() != op.getResult(0).getType()) return {};
  for (auto [d, index] : llvm::enumerate(element.getIndices())) {
    const auto loop = static_cast<int64_t>(d);
    const bool unit = element.getTensor().getType().getDimSize(static_cast<unsigned>(d)) == 1;
    if (loop == dim ? !isClampedPosition(index, dim) : !isLoop(index, loop) && !(unit && integer(index) == 0))
      return {};
  }
  return mlir::dyn_cast<mlir::BlockArgument>(element.getTensor());
}

void keepAppendedRows(mlir::func::FuncOp function, const RunTimeConcat& concat, int64_t rows) {
  GenericOp whole = concat.op;
  mlir::OpBuilder builder(whole);
  const auto type = mlir::cast<mlir::RankedTensorType>(whole.getResult(0).getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[static_cast<size_t>(concat.dim)] = rows;
  const auto part_type = mlir::RankedTensorType::get(shape, type.getElementType());
  Value empty = mlir::tensor::EmptyOp::create(builder, whole.getLoc(), shape, type.getElementType());
  auto part = GenericOp::create(builder, whole.getLoc(), mlir::TypeRange{part_type}, mlir::ValueRange{}, empty,
                                whole.getIndexingMapsArray(), whole.getIteratorTypesArray());
  part.getRegion().takeBody(whole.getRegion());
  mlir::Block& body = *part.getBody();
  // Every row of the part is at or after the length.
  mlir::Operation* yield = body.getTerminator();
  yield->setOperand(0, yield->getOperand(0).getDefiningOp<mlir::arith::SelectOp>().getFalseValue());
  eraseDead(body);
  // The position in the whole is length + row, so that position - length is the row.
  llvm::SmallVector<mlir::arith::SubIOp> differences;
  llvm::SmallVector<mlir::linalg::IndexOp> positions;
  body.walk([&](mlir::Operation* op) {
    auto sub = mlir::dyn_cast<mlir::arith::SubIOp>(op);
    if (sub && isPosition(sub.getLhs(), concat.dim) && readFrom(sub.getRhs()) == concat.length)
      differences.push_back(sub);
    auto index = mlir::dyn_cast<mlir::linalg::IndexOp>(op);
    if (index && static_cast<int64_t>(index.getDim()) == concat.dim) positions.push_back(index);
  });
  for (mlir::arith::SubIOp sub : differences) {
    builder.setInsertionPoint(sub);
    Value row = mlir::linalg::IndexOp::create(builder, sub.getLoc(), static_cast<uint64_t>(concat.dim));
    sub.replaceAllUsesWith(mlir::arith::IndexCastOp::create(builder, sub.getLoc(), sub.getType(), row).getResult());
  }
  eraseDead(body);
  for (mlir::linalg::IndexOp index : positions) {
    if (llvm::none_of(body, [&](mlir::Operation& op) { return &op == index.getOperation(); })) continue;
    builder.setInsertionPointAfter(index);
    Value length = mlir::tensor::ExtractOp::create(builder, index.getLoc(), concat.length, mlir::ValueRange{});
    Value shift = mlir::arith::IndexCastOp::create(builder, index.getLoc(), builder.getIndexType(), length);
    auto place = mlir::arith::AddIOp::create(builder, index.getLoc(), index.getResult(), shift);
    index.getResult().replaceAllUsesExcept(place, place);
  }
  function.getBody().front().getTerminator()->setOperand(0, part.getResult(0));
  function.setFunctionType(mlir::FunctionType::get(function.getContext(), function.getArgumentTypes(), {part_type}));
  whole.erase();
  eraseDead(function.getBody().front());
}

}  // namespace tessera::compiler
