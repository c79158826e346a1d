#include "compiler/graph/analysis/extent_masks.h"

#include <functional>

#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
namespace linalg = mlir::linalg;
namespace tensor = mlir::tensor;
using llvm::ArrayRef;
using mlir::RankedTensorType;
using mlir::Value;

constexpr size_t kMaxMasks = 6;  // nested in each other

}  // namespace

/// Returns the part of a loop outside which a condition of a body is certainly false. Nothing if the condition is not a
/// comparison of a position with an extent.
std::optional<UsedPart> ExtentMasks::holdsFor(Value condition, linalg::LinalgOp op, ArrayRef<int64_t> extents) {
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(condition)) {
    if (argument.getOwner() != op.getBlock()) return std::nullopt;
    mlir::OpOperand& operand = op->getOpOperand(argument.getArgNumber());
    const auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
    const auto rows = type ? trueFor(operand.get()) : std::nullopt;
    auto part = rows ? parts_.partOf(type, *rows) : std::nullopt;
    if (!part) return std::nullopt;
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(
        op.getMatchingIndexingMap(&operand).getResult(static_cast<unsigned>(part->position)));
    if (!loop || extents[loop.getPosition()] != type.getDimSize(part->position)) return std::nullopt;
    part->position = loop.getPosition();
    return part;
  }
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare) return std::nullopt;
  Value position = compare.getLhs(), extent = compare.getRhs();
  using Predicate = arith::CmpIPredicate;
  const Predicate predicate = compare.getPredicate();
  if (predicate == Predicate::sgt || predicate == Predicate::ugt)
    std::swap(position, extent);
  else if (predicate != Predicate::slt && predicate != Predicate::ult)
    return std::nullopt;
  while (position.getDefiningOp() &&
         mlir::isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp>(position.getDefiningOp()))
    position = position.getDefiningOp()->getOperand(0);
  auto loop = position.getDefiningOp<linalg::IndexOp>();
  const auto series = loop ? series_.of(extent) : std::nullopt;
  const bool is_unsigned = predicate == Predicate::ult || predicate == Predicate::ugt;
  if (series && is_unsigned && llvm::any_of(series->at, [](int64_t value) { return value < 0; })) return std::nullopt;
  if (series && is_unsigned && !series->is_exact) return std::nullopt;
  auto rows = series ? parts_.rowsByExtent(*series, extents[loop.getDim()]) : std::nullopt;
  if (!rows) return std::nullopt;
  return UsedPart{static_cast<int64_t>(loop.getDim()), 1, *std::move(rows)};
}

/// Like holdsFor(), for the elements of a tensor of conditions.
std::optional<UsedRows> ExtentMasks::trueFor(Value conditions) {
  mlir::Operation* op = conditions.getDefiningOp();
  if (op && mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) return trueFor(op->getOperand(0));
  auto generic = mlir::dyn_cast_or_null<linalg::GenericOp>(op);
  if (!generic || generic.getNumResults() != 1 || generic.getNumReductionLoops() > 0) return std::nullopt;
  auto structured = mlir::cast<linalg::LinalgOp>(op);
  auto part = holdsFor(generic.getBody()->getTerminator()->getOperand(0), structured, structured.getStaticLoopRanges());
  if (!part) return std::nullopt;
  const auto dim =
      structured.getMatchingIndexingMap(&structured.getDpsInitsMutable()[0])
          .getResultPosition(mlir::getAffineDimExpr(static_cast<unsigned>(part->position), op->getContext()));
  if (!dim) return std::nullopt;
  UsedRows rows = part->rows;
  rows.stride = part->iterations_per_row * elementStride(mlir::cast<RankedTensorType>(conditions.getType()), *dim);
  return rows;
}

/// Returns the values that a body reads only under a mask: arguments, and elements at computed positions.
MaskedValues ExtentMasks::maskedValues(linalg::LinalgOp op, ArrayRef<int64_t> extents) {
  mlir::Block* body = op.getBlock();
  if (!body || llvm::any_of(*body, [](mlir::Operation& inner) { return inner.getNumRegions() > 0; }))
    return MaskedValues();
  MaskedValues found;
  llvm::DenseSet<Value> inside;  // values reached under the current masks
  UsedParts around;
  const std::function<void(Value)> reach = [&](Value value) {
    if (!inside.insert(value).second) return;
    mlir::Operation* definition = value.getDefiningOp();
    if (!definition || mlir::isa<tensor::ExtractOp>(definition)) {
      const auto [known, fresh] = found.try_emplace(value, around);
      if (!fresh) known->second = parts_.unionOf(known->second, around);
      if (!definition) return;
    }
    auto select = mlir::dyn_cast<arith::SelectOp>(definition);
    auto part = select && around.size() < kMaxMasks ? holdsFor(select.getCondition(), op, extents) : std::nullopt;
    if (!part) {
      for (Value operand : definition->getOperands()) reach(operand);
      return;
    }
    reach(select.getCondition());
    reach(select.getFalseValue());
    llvm::DenseSet<Value> outside;
    std::swap(inside, outside);
    around.push_back(*std::move(part));
    reach(select.getTrueValue());
    around.pop_back();
    std::swap(inside, outside);
  };
  for (Value result : body->getTerminator()->getOperands()) reach(result);
  return found;
}

}  // namespace tessera::compiler
