#include "compiler/graph/rewrites/casts.h"

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/counted_pattern.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/rewrites/cast_rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::PatternRewriter;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;
using mlir::linalg::GenericOp;

unsigned bitsOf(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }
Type elementOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()).getElementType(); }

/// Returns the linalg.generic that converts each element of its only input by one instruction; otherwise null.
GenericOp castOf(Value value) {
  auto op = value.getDefiningOp<GenericOp>();
  if (!op || kindOf(op) != OpKind::kElementwise || op.getNumDpsInputs() != 1 || op->getNumResults() != 1) return {};
  mlir::Block* body = op.getBody();
  if (body->getOperations().size() != 2 || !op.getIndexingMapsArray()[0].isIdentity()) return {};
  mlir::Operation& cast = body->front();
  if (!mlir::isa<mlir::CastOpInterface>(cast) || cast.getOperand(0) != body->getArgument(0)) return {};
  return body->getTerminator()->getOperand(0) == cast.getResult(0) ? op : GenericOp();
}

/// Whether the conversion is exact and makes elements larger.
bool isWidening(GenericOp cast) {
  return mlir::isa<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(cast.getBody()->front());
}
bool isNarrowing(GenericOp cast) {
  return bitsOf(elementOf(cast.getResult(0))) < bitsOf(elementOf(cast.getDpsInputs()[0]));
}

/// Applies the conversion of `cast` to another value.
Value applyCast(PatternRewriter& r, GenericOp cast, Value value) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  auto to = RankedTensorType::get(type.getShape(), elementOf(cast.getResult(0)));
  Value empty = mlir::tensor::EmptyOp::create(r, cast.getLoc(), to.getShape(), to.getElementType());
  llvm::SmallVector<mlir::AffineMap> maps(2, r.getMultiDimIdentityMap(type.getRank()));
  llvm::SmallVector<mlir::utils::IteratorType> loops(type.getRank(), mlir::utils::IteratorType::parallel);
  auto result = GenericOp::create(r, cast.getLoc(), mlir::TypeRange{to}, mlir::ValueRange{value},
                                  mlir::ValueRange{empty}, maps, loops);
  r.cloneRegionBefore(cast.getRegion(), result.getRegion(), result.getRegion().begin());
  return result.getResult(0);
}

/// Whether `op` only moves elements of its first operand.
bool movesElements(mlir::Operation* op) {
  if (!op) return false;
  const OpKind kind = kindOf(op);
  return kind == OpKind::kView || kind == OpKind::kSlice || !permutationOf(op).empty();
}

/// Applies the movement of `op` to another value with other element type.
Value applyMove(PatternRewriter& r, mlir::Operation* op, Value value) {
  if (auto permutation = permutationOf(op); !permutation.empty()) return transpose(r, op->getLoc(), value, permutation);
  mlir::Operation* moved = r.clone(*op);
  moved->setOperand(0, value);
  auto type = mlir::cast<RankedTensorType>(op->getResult(0).getType());
  moved->getResult(0).setType(RankedTensorType::get(type.getShape(), elementOf(value)));
  return moved->getResult(0);
}

/// move(widen x) -> widen(move x)
template <typename Op>
Value widenLater(Op op, PatternRewriter& r) {
  if (!movesElements(op)) return {};
  GenericOp cast = castOf(op->getOperand(0));
  if (!cast || !isWidening(cast) || !cast->hasOneUse()) return {};
  return applyCast(r, cast, applyMove(r, op, cast.getDpsInputs()[0]));
}

/// narrow(move x) -> move(narrow x)
Value narrowEarlier(GenericOp op, PatternRewriter& r) {
  if (castOf(op.getResult(0)) != op || !isNarrowing(op)) return {};
  mlir::Operation* move = op.getDpsInputs()[0].getDefiningOp();
  if (!movesElements(move) || !move->hasOneUse()) return {};
  // A slice may be a small part, so converting before it would be more work.
  if (kindOf(move) == OpKind::kSlice) return {};
  return applyMove(r, move, applyCast(r, op, move->getOperand(0)));
}

/// cast(widen x): the second conversion reads x, so that the first one may become dead even if it has other readers.
Value skipWidening(GenericOp op, PatternRewriter& r) {
  GenericOp cast = castOf(op.getResult(0));
  GenericOp widening = cast ? castOf(cast.getDpsInputs()[0]) : GenericOp();
  if (!widening || !isWidening(widening)) return {};
  Value x = widening.getDpsInputs()[0];
  mlir::Operation& second = cast.getBody()->front();
  const Type from = elementOf(x), to = elementOf(cast.getResult(0));
  mlir::Operation& first = widening.getBody()->front();
  // Both must be of one family: float to float, or integer to integer with the same signedness.
  const bool floats = mlir::isa<arith::ExtFOp>(first) && mlir::isa<arith::TruncFOp, arith::ExtFOp>(second);
  const bool integers =
      !mlir::isa<arith::ExtFOp>(first) && (mlir::isa<arith::TruncIOp>(second) || first.getName() == second.getName());
  if (!floats && !integers) return {};
  if (from == to) return x;
  if (floats && !holds(from, to) && !holds(to, from)) return {};
  const bool wider = bitsOf(to) > bitsOf(from);
  auto type = mlir::cast<RankedTensorType>(cast.getResult(0).getType());
  Value empty = mlir::tensor::EmptyOp::create(r, op.getLoc(), type.getShape(), to);
  llvm::SmallVector<mlir::AffineMap> maps(2, r.getMultiDimIdentityMap(type.getRank()));
  llvm::SmallVector<mlir::utils::IteratorType> loops(type.getRank(), mlir::utils::IteratorType::parallel);
  const mlir::StringRef name = wider    ? first.getName().getStringRef()
                               : floats ? arith::TruncFOp::getOperationName()
                                        : arith::TruncIOp::getOperationName();
  return GenericOp::create(r, op.getLoc(), mlir::TypeRange{type}, mlir::ValueRange{x}, mlir::ValueRange{empty}, maps,
                           loops,
                           [&](mlir::OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
                             mlir::OperationState state(at, name, mlir::ValueRange{v[0]}, mlir::TypeRange{to});
                             mlir::linalg::YieldOp::create(b, at, b.create(state)->getResult(0));
                           })
      .getResult(0);
}

}  // namespace

int eliminateCasts(mlir::func::FuncOp main) {
  int count = 0;
  mlir::RewritePatternSet patterns(main.getContext());
  addCastRules(patterns, count);
  addCounted<GenericOp>(patterns, count, {skipWidening, narrowEarlier, widenLater<GenericOp>});
  addCounted<mlir::tensor::ExpandShapeOp>(patterns, count, {widenLater<mlir::tensor::ExpandShapeOp>});
  addCounted<mlir::tensor::CollapseShapeOp>(patterns, count, {widenLater<mlir::tensor::CollapseShapeOp>});
  addCounted<mlir::tensor::ExtractSliceOp>(patterns, count, {widenLater<mlir::tensor::ExtractSliceOp>});
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  return count;
}

}  // namespace tessera::compiler
