#include "compiler/graph/rewrites/promote_accumulators.h"

#include "compiler/graph/analysis/counted_pattern.h"
#include "compiler/graph/analysis/each_element.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::PatternRewriter;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;
using mlir::linalg::GenericOp;

bool isHalf(Type type) { return type.isF16() || type.isBF16(); }
Type elementOf(Value value) { return mlir::getElementTypeOrSelf(value.getType()); }

/// Applies one conversion instruction to each element.
template <typename Op>
Value convert(OpBuilder& b, mlir::Location loc, Value value, Type to) {
  return mapElements(b, loc, value, to, [to](OpBuilder& inner, mlir::Location at, Value element) -> Value {
    return Op::create(inner, at, to, element);
  });
}

/// Whether a 16-bit result of the reduction is computed other than by choosing among its terms.
bool roundsHalves(GenericOp op) {
  mlir::Operation* yield = op.getBody()->getTerminator();
  return llvm::any_of(yield->getOperands(), [](Value value) {
    mlir::Operation* last = value.getDefiningOp();
    return isHalf(value.getType()) && last &&
           !mlir::isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::SelectOp>(last);
  });
}

/// Rebuilds the body's operations in f32.
class WidenedBody {
 public:
  WidenedBody(OpBuilder& b, mlir::Location loc, mlir::IRMapping& values) : b_(b), loc_(loc), values_(values) {}

  /// Maps arguments and captured values, which are 16-bit, or f32 for sums.
  void add(Value half, Value value) { values_.map(half, isHalf(value.getType()) ? extended(value) : value); }
  Value of(Value value) {
    if (Value known = values_.lookupOrNull(value)) return known;
    if (!isHalf(value.getType())) return value;
    Value wide = extended(value);
    values_.map(value, wide);
    return wide;
  }

  void clone(mlir::Operation& op) {
    const bool rounds = mlir::isa<arith::TruncFOp>(op);  // an explicit rounding stays
    // An extension of a value that is wide already disappears.
    if (auto wide = mlir::dyn_cast<arith::ExtFOp>(op); wide && isHalf(wide.getIn().getType())) {
      Value in = of(wide.getIn());
      values_.map(wide.getResult(), wide.getType().isF32() ? in : b_.clone(op, values_)->getResult(0));
      return;
    }
    llvm::APFloat number(0.0);
    // Constants become constants in f32.
    if (op.getNumResults() == 1 && isHalf(op.getResult(0).getType()) && mlir::matchPattern(&op, mlir::m_Constant()) &&
        mlir::matchPattern(&op, mlir::m_ConstantFloat(&number))) {
      bool loses = false;
      number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
      values_.map(op.getResult(0), arith::ConstantOp::create(b_, loc_, b_.getFloatAttr(b_.getF32Type(), number)));
      return;
    }
    // Operands that are not defined inside the body are extended at their first use.
    for (Value operand : op.getOperands()) (void)of(operand);
    for (Value operand : op.getOperands())
      if (!values_.contains(operand)) values_.map(operand, operand);
    mlir::Operation* copy = b_.clone(op, values_);
    for (auto [from, to] : llvm::zip_equal(op.getResults(), copy->getResults())) {
      if (!isHalf(to.getType())) continue;
      // Arithmetic takes f32 as it is; other operations keep their type and are extended.
      const bool arithmetic = mlir::OpTrait::hasElementwiseMappableTraits(&op);
      if (!rounds && arithmetic) {
        to.setType(b_.getF32Type());
        values_.map(from, to);
      } else {
        values_.map(from, extended(to));
      }
    }
  }

 private:
  Value extended(Value half) { return arith::ExtFOp::create(b_, loc_, b_.getF32Type(), half); }

  OpBuilder& b_;
  mlir::Location loc_;
  mlir::IRMapping& values_;
};

bool canWiden(GenericOp op) {
  return llvm::none_of(op.getBody()->without_terminator(), [](mlir::Operation& inner) {
    return inner.getNumRegions() != 0 || mlir::isa<arith::BitcastOp>(inner);
  });
}

void sumInSingle(GenericOp op) {
  OpBuilder b(op);
  const mlir::Location loc = op.getLoc();
  llvm::SmallVector<Value> inits;
  llvm::SmallVector<Type> types;
  // Initial values are widened too, a fill by its number.
  for (Value init : op.getDpsInits()) {
    if (isHalf(elementOf(init))) {
      auto fill = init.getDefiningOp<mlir::linalg::FillOp>();
      auto type = mlir::cast<RankedTensorType>(init.getType()).clone(b.getF32Type());
      if (fill) {
        Value scalar = fill.getInputs()[0];
        if (isHalf(scalar.getType())) scalar = arith::ExtFOp::create(b, loc, b.getF32Type(), scalar);
        Value empty = mlir::tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType());
        init = mlir::linalg::FillOp::create(b, loc, scalar, empty).getResult(0);
      } else {
        init = convert<arith::ExtFOp>(b, loc, init, b.getF32Type());
      }
    }
    inits.push_back(init);
    types.push_back(init.getType());
  }
  auto summed =
      GenericOp::create(b, loc, types, op.getDpsInputs(), inits, op.getIndexingMapsArray(), op.getIteratorTypesArray(),
                        [&](OpBuilder& inner, mlir::Location at, mlir::ValueRange arguments) {
                          mlir::IRMapping values;
                          WidenedBody body(inner, at, values);
                          for (auto [from, to] : llvm::zip_equal(op.getBody()->getArguments(), arguments))
                            body.add(from, to);
                          for (mlir::Operation& each : op.getBody()->without_terminator()) body.clone(each);
                          llvm::SmallVector<Value> yielded;
                          for (Value value : op.getBody()->getTerminator()->getOperands())
                            yielded.push_back(body.of(value));
                          mlir::linalg::YieldOp::create(inner, at, yielded);
                        });
  // Rounds once, at the end of the sum.
  for (auto [old, sum] : llvm::zip_equal(op.getResults(), summed.getResults())) {
    Value rounded = sum;
    if (isHalf(elementOf(old))) rounded = convert<arith::TruncFOp>(b, loc, sum, elementOf(old));
    old.replaceAllUsesWith(rounded);
  }
  op.erase();
}

/// Returns the operation that only widens a 16-bit tensor to f32; null for any other.
GenericOp wideningOf(Value value) {
  auto op = value.getDefiningOp<GenericOp>();
  if (!op || kindOf(op) != OpKind::kElementwise || op.getNumDpsInputs() != 1 || op->getNumResults() != 1) return {};
  mlir::Block* body = op.getBody();
  auto wide = mlir::dyn_cast<arith::ExtFOp>(body->front());
  if (!wide || body->getOperations().size() != 2 || !op.getIndexingMapsArray()[0].isIdentity()) return {};
  if (wide.getIn() != body->getArgument(0) || body->getTerminator()->getOperand(0) != wide.getResult()) return {};
  return isHalf(wide.getIn().getType()) && wide.getType().isF32() ? op : GenericOp();
}

/// move(widen x) -> widen(move x), also if the widened value has other readers: elements are widened as they are
/// loaded.
template <typename Op>
Value moveFirst(Op op, PatternRewriter& r) {
  GenericOp widening = wideningOf(op->getOperand(0));
  if (!widening) return {};
  Value x = widening.getDpsInputs()[0];
  if (auto permutation = permutationOf(op); !permutation.empty()) {
    auto from = mlir::cast<RankedTensorType>(x.getType());
    llvm::SmallVector<int64_t> shape;
    for (int64_t source : permutation) shape.push_back(from.getDimSize(source));
    Value empty = mlir::tensor::EmptyOp::create(r, op.getLoc(), shape, from.getElementType());
    auto moved = mlir::linalg::TransposeOp::create(r, op.getLoc(), x, empty, permutation);
    auto generic = mlir::linalg::generalizeNamedOp(r, moved);
    if (mlir::failed(generic)) return {};
    return convert<arith::ExtFOp>(r, op.getLoc(), generic->getResult(0), r.getF32Type());
  }
  if (mlir::isa<GenericOp>(op.getOperation())) return {};
  mlir::IRMapping values;
  mlir::Operation* moved = r.clone(*op.getOperation());
  moved->setOperand(0, x);
  auto type = mlir::cast<RankedTensorType>(op->getResult(0).getType());
  moved->getResult(0).setType(type.clone(elementOf(x)));
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(moved)) {
    llvm::APFloat with(0.0);
    Value constant = pad.getConstantPaddingValue();
    bool loses = true;
    if (constant && mlir::matchPattern(constant, mlir::m_ConstantFloat(&with)))
      with.convert(mlir::cast<mlir::FloatType>(elementOf(x)).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &loses);
    if (loses) {
      r.eraseOp(moved);
      return {};
    }
    OpBuilder::InsertionGuard guard(r);
    r.setInsertionPoint(pad);
    Value narrow = arith::ConstantOp::create(r, op.getLoc(), r.getFloatAttr(elementOf(x), with));
    mlir::Operation* yield = pad.getRegion().front().getTerminator();
    r.modifyOpInPlace(yield, [&] { yield->setOperand(0, narrow); });
  }
  return convert<arith::ExtFOp>(r, op.getLoc(), moved->getResult(0), r.getF32Type());
}

bool widensForReduction(mlir::OpOperand* operand) {
  auto reader = mlir::dyn_cast<GenericOp>(operand->getOwner());
  return reader && reader.getNumReductionLoops() > 0 && reader.isDpsInput(operand) && wideningOf(operand->get());
}

}  // namespace

int promoteAccumulators(mlir::func::FuncOp main) {
  llvm::SmallVector<GenericOp> sums;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>())
    if (op.getNumReductionLoops() > 0 && op.hasPureTensorSemantics() && roundsHalves(op) && canWiden(op))
      sums.push_back(op);
  for (GenericOp op : sums) sumInSingle(op);
  return static_cast<int>(sums.size());
}

int widenOnLoad(mlir::func::FuncOp main) {
  int count = 0;
  {
    mlir::RewritePatternSet patterns(main.getContext());
    addCounted<GenericOp>(patterns, count, {moveFirst<GenericOp>});
    addCounted<mlir::tensor::ExpandShapeOp>(patterns, count, {moveFirst<mlir::tensor::ExpandShapeOp>});
    addCounted<mlir::tensor::CollapseShapeOp>(patterns, count, {moveFirst<mlir::tensor::CollapseShapeOp>});
    addCounted<mlir::tensor::ExtractSliceOp>(patterns, count, {moveFirst<mlir::tensor::ExtractSliceOp>});
    addCounted<mlir::tensor::PadOp>(patterns, count, {moveFirst<mlir::tensor::PadOp>});
    (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  }
  for (GenericOp op : main.getBody().front().getOps<GenericOp>())
    for (mlir::OpOperand* input : op.getDpsInputOperands()) count += widensForReduction(input);
  mlir::RewritePatternSet patterns(main.getContext());
  mlir::linalg::populateElementwiseOpsFusionPatterns(patterns, widensForReduction);
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  return count;
}

}  // namespace tessera::compiler
