#include "compiler/graph/plan/outline.h"

#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/rewrites/concat.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;

/// out[i] = convert(in[i]) for every element; without a conversion, a copy.
template <typename Convert>
Value buildMap(OpBuilder& builder, Location location, Value input, RankedTensorType type, Convert convert) {
  Value empty = mlir::tensor::EmptyOp::create(builder, location, type.getShape(), type.getElementType());
  mlir::AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
  llvm::SmallVector<mlir::utils::IteratorType> loops(type.getRank(), mlir::utils::IteratorType::parallel);
  return mlir::linalg::GenericOp::create(builder, location, type, input, empty,
                                         llvm::ArrayRef<mlir::AffineMap>{identity, identity}, loops,
                                         [&](OpBuilder& inner, Location at, mlir::ValueRange operands) {
                                           Value element = convert(inner, at, operands[0]);
                                           mlir::linalg::YieldOp::create(inner, at, element);
                                         })
      .getResult(0);
}

/// Whether the value is a constant or similar, a slice, or a view of one.
bool isCopiedIn(Value value) {
  mlir::Operation* producer = value.getDefiningOp();
  while (producer && kindOf(producer) == OpKind::kView) producer = producer->getOperand(0).getDefiningOp();
  return producer && (kindOf(producer) == OpKind::kCloned || kindOf(producer) == OpKind::kSlice);
}

class Outliner {
 public:
  explicit Outliner(const Group& group) : group_(group), members_(group.ops.begin(), group.ops.end()) {}
  OutlinedGroup run();

 private:
  void map(Value value);
  llvm::SetVector<Value> valuesReadBy(mlir::Operation* op);

  const Group& group_;
  llvm::SmallPtrSet<mlir::Operation*, 16> members_;
  OutlinedGroup outlined_;
  mlir::IRMapping mapping_;
  OpBuilder builder_{static_cast<mlir::MLIRContext*>(nullptr)};
};

llvm::SetVector<Value> Outliner::valuesReadBy(mlir::Operation* op) {
  llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
  // Operations with regions read more than their operands.
  mlir::getUsedValuesDefinedAbove(op->getRegions(), values);
  return values;
}

/// Makes `value` available in the function: as a clone of its definition, or as an argument.
void Outliner::map(Value value) {
  if (mapping_.contains(value)) return;
  mlir::Operation* producer = value.getDefiningOp();
  // Constants and slices come along: a slice is an address, and a constant belongs to the code.
  if (producer && isCopiedIn(value)) {
    for (Value operand : valuesReadBy(producer)) map(operand);
    builder_.clone(*producer, mapping_);
    return;
  }
  auto type = mlir::cast<RankedTensorType>(value.getType());
  mlir::func::FuncOp function = *outlined_.function;
  Value argument = function.getBody().front().addArgument(interfaceType(type), value.getLoc());
  outlined_.arguments.push_back(value);
  // Booleans cross the border as bytes.
  if (argument.getType() != type) {
    argument = buildMap(builder_, value.getLoc(), argument, type, [](OpBuilder& inner, Location at, Value element) {
      return mlir::arith::TruncIOp::create(inner, at, inner.getI1Type(), element);
    });
  }
  mapping_.map(value, argument);
}

OutlinedGroup Outliner::run() {
  outlined_.chain = group_.chain;
  outlined_.choice = group_.choice;
  outlined_.fusion = group_.fusion;
  mlir::Operation* root = group_.ops.front();
  // A function of its own, in no module, until it has been printed.
  builder_ = OpBuilder(root->getContext());
  mlir::FunctionType nothing = builder_.getFunctionType({}, {});
  outlined_.function = mlir::func::FuncOp::create(root->getLoc(), "w", nothing);
  mlir::func::FuncOp function = *outlined_.function;
  builder_.setInsertionPointToStart(function.addEntryBlock());
  for (mlir::Operation* op : group_.ops) {
    for (Value value : valuesReadBy(op)) {
      if (!value.getDefiningOp() || !members_.contains(value.getDefiningOp())) map(value);
    }
    builder_.clone(*op, mapping_);
  }
  llvm::SmallVector<Value> results;
  for (Value value : group_.results) {
    Value result = mapping_.lookup(value);
    auto type = mlir::cast<RankedTensorType>(value.getType());
    if (RankedTensorType border = interfaceType(type); border != type) {
      result = buildMap(builder_, value.getLoc(), result, border, [](OpBuilder& inner, Location at, Value element) {
        return mlir::arith::ExtUIOp::create(inner, at, inner.getI8Type(), element);
      });
    }
    results.push_back(result);
  }
  mlir::func::ReturnOp::create(builder_, root->getLoc(), results);
  function.setType(
      builder_.getFunctionType(function.getBody().front().getArgumentTypes(), mlir::ValueRange(results).getTypes()));
  return std::move(outlined_);
}

}  // namespace

RankedTensorType interfaceType(RankedTensorType type) {
  if (!type.getElementType().isInteger(1)) return type;
  return RankedTensorType::get(type.getShape(), mlir::IntegerType::get(type.getContext(), 8));
}

OutlinedGroup outlineGroup(const Group& group) { return Outliner(group).run(); }

mlir::OwningOpRef<mlir::func::FuncOp> makeCopyFunction(Location location, RankedTensorType type) {
  OpBuilder builder(type.getContext());
  mlir::OwningOpRef<mlir::func::FuncOp> function =
      mlir::func::FuncOp::create(location, "w", builder.getFunctionType(type, type));
  mlir::Block* body = function->addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value copy = buildMap(builder, location, body->getArgument(0), type,
                        [](OpBuilder&, Location, Value element) { return element; });
  mlir::func::ReturnOp::create(builder, location, copy);
  return function;
}

}  // namespace tessera::compiler
