#include "compiler/graph/analysis/window_access.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::OpBuilder;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::ExtractSliceOp;
using Extents = llvm::SmallVector<int64_t>;

/// Returns c of the term c * loop in a sum of such terms; nothing for another expression.
std::optional<int64_t> factorOf(AffineExpr index, unsigned loop) {
  if (auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(index)) return dim.getPosition() == loop ? 1 : 0;
  auto both = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(index);
  if (!both) return std::nullopt;
  const std::optional<int64_t> left = factorOf(both.getLHS(), loop);
  if (!left) return std::nullopt;
  if (index.getKind() == mlir::AffineExprKind::Add) {
    const std::optional<int64_t> right = factorOf(both.getRHS(), loop);
    return right ? std::optional(*left + *right) : std::nullopt;
  }
  auto factor = mlir::dyn_cast<mlir::AffineConstantExpr>(both.getRHS());
  return index.getKind() == mlir::AffineExprKind::Mul && factor ? std::optional(*left * factor.getValue())
                                                                : std::nullopt;
}

}  // namespace

std::optional<WindowAccess> windowAccessOf(GenericOp op, unsigned operand, unsigned dimension) {
  const AffineExpr index = op.getIndexingMapsArray()[operand].getResult(dimension);
  WindowAccess access{.operand = operand, .dimension = dimension};
  int places = 0, taps = 0;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    if (!index.isFunctionOfDim(loop)) continue;
    const std::optional<int64_t> factor = factorOf(index, loop);
    if (!factor || *factor <= 0) return std::nullopt;
    const bool summed = op.getIteratorTypesArray()[loop] == mlir::utils::IteratorType::reduction;
    ++(summed ? taps : places);
    (summed ? access.tap_loop : access.window_loop) = loop;
    (summed ? access.dilation : access.stride) = *factor;
  }
  return places == 1 && taps == 1 ? std::optional(access) : std::nullopt;
}

std::optional<llvm::SmallVector<std::pair<unsigned, unsigned>>> operandsIndexedByTap(GenericOp op,
                                                                                     const WindowAccess& access) {
  llvm::SmallVector<std::pair<unsigned, unsigned>> along;
  for (auto [operand, map] : llvm::enumerate(op.getIndexingMapsArray())) {
    for (auto [dimension, index] : llvm::enumerate(map.getResults())) {
      if (!index.isFunctionOfDim(access.tap_loop) || (operand == access.operand && dimension == access.dimension))
        continue;
      if (operand == access.operand || !mlir::isa<mlir::AffineDimExpr>(index)) return std::nullopt;
      along.emplace_back(operand, dimension);
    }
  }
  return along;
}

Value sliced(OpBuilder& b, Value value, unsigned dimension, int64_t first, int64_t count) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  Extents offsets(type.getRank(), 0), sizes(type.getShape());
  const Extents ones(type.getRank(), 1);
  offsets[dimension] = first;
  sizes[dimension] = count;
  if (llvm::ArrayRef<int64_t>(sizes) == type.getShape()) return value;
  return ExtractSliceOp::create(b, value.getLoc(), value, mlir::getAsIndexOpFoldResult(b.getContext(), offsets),
                                mlir::getAsIndexOpFoldResult(b.getContext(), sizes),
                                mlir::getAsIndexOpFoldResult(b.getContext(), ones));
}

}  // namespace tessera::compiler
