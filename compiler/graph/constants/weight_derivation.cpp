#include "compiler/graph/constants/weight_derivation.h"

#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/constants/constant_evaluator.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

/// Most operations of one derivation. Models have a cast, a permutation, a padding and a transform.
constexpr size_t kMaxOperations = 24;
/// Most elements of a constant that may be part of the code. Larger ones are weights (constantsToWeights).
constexpr int64_t kMaxConstantElements = 64;

DenseValue valueOf(const Weight& weight, RankedTensorType type) {
  DenseValue value{llvm::SmallVector<int64_t>(type.getShape()), denseWidth(type.getElementType()), nullptr,
                   weight.owner};
  value.data = weight.bytes.data();
  return value;
}

/// Collects the operations that compute `value`, operands before users.
class Slice {
 public:
  explicit Slice(llvm::function_ref<const Weight*(Value)> weight_of) : weight_of_(weight_of) {}

  bool add(Value value) {
    if (weight_of_(value)) return arguments_.insert(value), true;
    Operation* op = value.getDefiningOp();
    if (!op) return false;
    // Counts operations on the way down as well, so that recursion is limited.
    if (operations_.contains(op)) return true;
    if (operations_.size() + visiting_ >= kMaxOperations || !isAllowed(op)) return false;
    ++visiting_;
    llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
    // Bodies may read values from outside.
    mlir::getUsedValuesDefinedAbove(op->getRegions(), read);
    for (Value operand : read)
      if (!add(operand)) return false;
    --visiting_;
    operations_.insert(op);
    return true;
  }

  llvm::ArrayRef<Operation*> operations() const { return operations_.getArrayRef(); }
  llvm::ArrayRef<Value> arguments() const { return arguments_.getArrayRef(); }

 private:
  static bool isAllowed(Operation* op) {
    if (auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(op)) {
      auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
      // Large constants are data and would have to be stored with the derivation.
      return !elements || elements.isSplat() || elements.getNumElements() <= kMaxConstantElements;
    }
    return (kindOf(op) != OpKind::kOpaque || mlir::isa<mlir::tensor::ConcatOp>(op)) &&
           llvm::all_of(op->getResultTypes(), [](mlir::Type type) {
             auto tensor = mlir::dyn_cast<RankedTensorType>(type);
             // A preparation's buffers hold neither bits nor index values.
             return !tensor || (!tensor.getElementType().isInteger(1) && !tensor.getElementType().isIndex());
           });
  }

  llvm::function_ref<const Weight*(Value)> weight_of_;
  llvm::SetVector<Operation*> operations_;
  llvm::SetVector<Value> arguments_;
  size_t visiting_ = 0;
};

}  // namespace

int64_t WeightDerivation::sourceBytes() const {
  int64_t bytes = 0;
  for (const Weight& source : sources) bytes += static_cast<int64_t>(source.bytes.size());
  return bytes;
}

std::optional<DenseValue> evaluate(const WeightDerivation& derivation, int64_t& budget) {
  mlir::func::FuncOp function = derivation.function.get();
  ConstantEvaluator evaluator;
  for (auto [argument, source] : llvm::zip_equal(function.getArguments(), derivation.sources))
    evaluator.define(argument, valueOf(source, mlir::cast<RankedTensorType>(argument.getType())));
  return evaluator.evaluate(function.getBody().front().getTerminator()->getOperand(0), budget);
}

std::shared_ptr<const WeightDerivation> derivationOf(Value value, llvm::function_ref<const Weight*(Value)> weightOf) {
  Slice slice(weightOf);
  if (!slice.add(value)) return nullptr;
  auto derivation = std::make_shared<WeightDerivation>();
  mlir::OpBuilder builder(value.getContext());
  mlir::IRMapping mapping;
  mlir::Block* body = nullptr;
  derivation->function = mlir::func::FuncOp::create(value.getLoc(), "derivation", builder.getFunctionType({}, {}));
  body = derivation->function->addEntryBlock();
  builder.setInsertionPointToEnd(body);
  // Sources are identified by their bytes, because two weights may derive from one source.
  llvm::SmallDenseMap<const char*, Value> argument_of;
  const auto argument = [&](const Weight& source, mlir::Type type, mlir::Location location) {
    Value& known = argument_of[source.bytes.data()];
    if (known && known.getType() == type) return known;
    derivation->sources.push_back(source);
    return known = body->addArgument(type, location);
  };
  for (Value weight_argument : slice.arguments()) {
    const Weight& weight = *weightOf(weight_argument);
    if (!weight.derivation) {
      mapping.map(weight_argument, argument(weight, weight_argument.getType(), weight_argument.getLoc()));
      continue;
    }
    mlir::func::FuncOp inner = weight.derivation->function.get();
    mlir::IRMapping within;
    for (auto [from, source] : llvm::zip_equal(inner.getArguments(), weight.derivation->sources))
      within.map(from, argument(source, from.getType(), from.getLoc()));
    for (Operation& op : inner.getBody().front().without_terminator()) builder.clone(op, within);
    mapping.map(weight_argument, within.lookup(inner.getBody().front().getTerminator()->getOperand(0)));
  }
  for (Operation* op : slice.operations()) builder.clone(*op, mapping);
  mlir::func::ReturnOp::create(builder, value.getLoc(), mapping.lookup(value));
  derivation->function->setFunctionType(builder.getFunctionType(body->getArgumentTypes(), value.getType()));
  return derivation;
}

}  // namespace tessera::compiler
