#include "compiler/import/masked_softmax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Returns the operation whose body yields one `Op` of its arguments, in order.
template <typename Op>
GenericOp bodyOf(Value value) {
  auto generic = value.getDefiningOp<GenericOp>();
  if (!generic || generic.getNumResults() != 1 || generic.getNumReductionLoops() > 0) return nullptr;
  auto op = generic.getBody()->getTerminator()->getOperand(0).getDefiningOp<Op>();
  if (!op) return nullptr;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(operand);
    if (!argument || argument.getOwner() != generic.getBody() || argument.getArgNumber() != i) return nullptr;
  }
  return generic;
}

/// Whether `conditions`, along one dimension, are true exactly before the extent.
bool isBelow(const Node& node, Value conditions, Value extent) {
  auto generic = conditions.getDefiningOp<GenericOp>();
  if (!generic || generic.getNumLoops() != 1) return false;
  auto compare = generic.getBody()->getTerminator()->getOperand(0).getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt) return false;
  auto place = compare.getLhs().getDefiningOp<arith::IndexCastOp>();
  auto size = compare.getRhs().getDefiningOp<mlir::tensor::ExtractOp>();
  return place && place.getIn().getDefiningOp<mlir::linalg::IndexOp>() && size && size.getIndices().empty() &&
         node.sameExtent(size.getTensor(), extent);
}

/// Whether `scores` are -infinity beyond the extent of their last dimension.
bool isMasked(const Node& node, Value scores, Value extent) {
  auto generic = scores.getDefiningOp<GenericOp>();
  if (!generic || generic.getNumDpsInputs() != 2 || generic.getNumReductionLoops() > 0) return false;
  auto select = generic.getBody()->getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
  mlir::Block* body = generic.getBody();
  if (!select || select.getCondition() != body->getArgument(1) || select.getTrueValue() != body->getArgument(0) ||
      !mlir::matchPattern(select.getFalseValue(), mlir::m_NegInfFloat()))
    return false;
  const mlir::AffineMap along = generic.getIndexingMapsArray()[1];
  return along.getNumResults() == 1 &&
         along.getResult(0) == mlir::getAffineDimExpr(generic.getNumLoops() - 1, generic.getContext()) &&
         isBelow(node, generic.getDpsInputs()[1], extent);
}

}  // namespace

bool isMaskedSoftmax(const Node& node, const Tensor& x) {
  const int64_t last = x.rank() - 1;
  const auto extent = x.extents.find(last);
  if (extent == x.extents.end() || !x.value) return false;
  // If there is no column, there is no row either.
  const bool has_one = llvm::any_of(x.extents, [&](const auto& other) {
    return other.first != last && node.sameExtent(other.second, extent->second);
  });
  if (!has_one) return false;
  GenericOp quotient = bodyOf<arith::DivFOp>(x.value);
  GenericOp powers = quotient ? bodyOf<mlir::math::ExpOp>(quotient.getDpsInputs()[0]) : nullptr;
  GenericOp shifted = powers ? bodyOf<arith::SubFOp>(powers.getDpsInputs()[0]) : nullptr;
  return shifted && isMasked(node, shifted.getDpsInputs()[0], extent->second);
}

}  // namespace tessera::compiler
