// Loops that stay loops: their body is lowered to a separate function.
#include "compiler/import/loop_body.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/graph_importer.h"
#include "compiler/ir/loop_op.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

bool isWithin(Value value, mlir::func::FuncOp function) {
  return function.getBody().isAncestor(value.getParentRegion());
}

/// Booleans are i8 in a body's arguments and results.
v1::DataType interfaceType(v1::DataType type) { return type == v1::DATA_TYPE_BOOL ? v1::DATA_TYPE_I8 : type; }
Tensor toBorder(Emitter& e, const Tensor& x) {
  Tensor plain = x.dtype == v1::DATA_TYPE_BOOL ? e.cast(x, v1::DATA_TYPE_I8) : Emitter::wrap(e.value(x), x.dtype);
  plain.extents = x.extents;
  return plain;
}
Tensor fromBorder(Emitter& e, Value value, v1::DataType type) {
  const Tensor plain = Emitter::wrap(value, interfaceType(type));
  return type == v1::DATA_TYPE_BOOL ? e.cast(plain, type) : plain;
}

/// Whether an operation is copied into the body instead of captured: constants and operations without memory.
bool isCopiedIn(mlir::Operation* op) {
  if (op->getNumRegions() > 0) return false;
  if (op->hasTrait<mlir::OpTrait::ConstantLike>() || mlir::isa<mlir::tensor::EmptyOp>(op)) return true;
  return mlir::isMemoryEffectFree(op) &&
         llvm::none_of(op->getResultTypes(), [](mlir::Type type) { return mlir::isa<mlir::ShapedType>(type); });
}

Value copiedIn(mlir::OpBuilder& builder, Value outer, mlir::func::FuncOp body, llvm::DenseMap<Value, Value>& inner) {
  // Two operations may share an operand: each outer value is copied once.
  if (Value known = inner.lookup(outer)) return known;
  mlir::Operation* op = outer.getDefiningOp();
  mlir::IRMapping mapping;
  // First the operands that are copied as well, hence the recursion.
  for (Value operand : op->getOperands())
    if (!isWithin(operand, body) && operand.getDefiningOp() && isCopiedIn(operand.getDefiningOp()))
      mapping.map(operand, copiedIn(builder, operand, body, inner));
  mlir::Operation* copy = builder.clone(*op, mapping);
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults())) inner[from] = to;
  return inner.lookup(outer);
}

/// Turns outer values that the body reads into its last arguments. Returns these values in order; booleans must be
/// passed as i8.
llvm::SmallVector<Value> captureOuterValues(mlir::Location loc, mlir::func::FuncOp body) {
  mlir::Block& block = body.getBody().front();
  // A set that keeps insertion order: the arguments' order must not depend on addresses.
  llvm::SetVector<Value> outer;
  body.walk([&](mlir::Operation* op) {
    for (Value operand : op->getOperands())
      if (!isWithin(operand, body)) outer.insert(operand);
  });
  llvm::SmallVector<Value> captured;
  llvm::DenseMap<Value, Value> inner;
  mlir::OpBuilder start = mlir::OpBuilder::atBlockBegin(&block);
  // Only uses inside the body change; the outer graph still uses the value.
  const auto replace = [&](Value value, Value with) {
    value.replaceUsesWithIf(
        with, [&](mlir::OpOperand& use) { return body.getBody().isAncestor(use.getOwner()->getParentRegion()); });
  };
  for (Value value : outer) {
    if (value.getDefiningOp() && isCopiedIn(value.getDefiningOp())) {
      replace(value, copiedIn(start, value, body, inner));
      continue;
    }
    // A tensor becomes an argument. Buffers hold booleans as bytes, so these pass as i8 and are converted back.
    auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
    const bool boolean = type.getElementType().isInteger(1);
    const mlir::Type border = boolean ? mlir::Type(type.clone(start.getI8Type())) : mlir::Type(type);
    Value argument = block.addArgument(border, loc);
    captured.push_back(value);
    if (boolean) {
      Emitter first(start, loc, nullptr);
      argument = first.cast(Emitter::wrap(argument, v1::DATA_TYPE_I8), v1::DATA_TYPE_BOOL).value;
      start = first.b;
    }
    replace(value, argument);
  }
  return captured;
}

}  // namespace

mlir::func::FuncOp GraphImporter::beginLoopBody(mlir::Location loc) {
  mlir::OpBuilder b(&context_);
  b.setInsertionPointToEnd(result_.module->getBody());
  auto body = mlir::func::FuncOp::create(b, loc, absl::StrCat("loop", loops_++), b.getFunctionType({}, {}));
  body.setPrivate();
  body.addEntryBlock();
  return body;
}

void GraphImporter::discardLoopBody(mlir::func::FuncOp body) {
  body.walk([](mlir::Operation* op) { op->dropAllReferences(); });
  body->remove();
  discarded_.emplace_back(body);
}

/// Iterations carry the number of the run's error. fillLoopBody drops this state if the body finds no error.
absl::StatusOr<std::optional<LoopResults>> GraphImporter::lowerLoopBody(const Node& node, Emitter& outer,
                                                                        LoopRequest request, LoopBuilder build) {
  const RunFaults before = runFaults();
  request.carried.push_back(fault_);
  bool once = false;
  const auto with_fault = [&](Emitter& e, const LoopArguments& given) -> absl::StatusOr<LoopYield> {
    LoopArguments own = given;
    fault_ = own.carried.back();
    own.carried.pop_back();
    TESSERA_ASSIGN_OR_RETURN(LoopYield yield, build(e, own));
    once = yield.once;
    yield.carried.push_back(fault_);
    return yield;
  };
  absl::StatusOr<LoopResults> results = lowerInFunction(node, outer, request, with_fault);
  if (!results.ok() || once || (results->of_constants && request.most <= request.unrolled_if_constant)) {
    rewindTo(before);
    TESSERA_RETURN_IF_ERROR(results.status());
    return std::nullopt;
  }
  fault_ = results->carried.back();
  results->carried.pop_back();
  return *std::move(results);
}

absl::StatusOr<LoopResults> GraphImporter::lowerInFunction(const Node& node, Emitter& outer, const LoopRequest& request,
                                                           LoopBuilder build) {
  // Loop state lives in buffers of fixed size, one per carried value.
  for (const Tensor& carried : request.carried) {
    if (carried.sequence || (!carried.value && !carried.constant))
      return node.unsupported("a sequence or optional is carried from iteration to iteration", {.accepted = "tensors"});
  }
  mlir::func::FuncOp body = beginLoopBody(outer.loc);
  // Lowers the body into a function of its own; everything saved here is restored below, on success and failure.
  mlir::Block* const around = block_;
  const int64_t nodes = nodes_;
  const size_t known = non_empty_extents_.size();
  ModelCheck* const check = std::exchange(check_, nullptr);  // unrolling may work where this fails
  ++uncertain_;
  block_ = &body.getBody().front();
  BodyInterface border;
  absl::Status status = fillLoopBody(node, request, build, body, border);
  block_ = around;
  check_ = check;
  --uncertain_;
  // An iteration may not run, so extents derived inside refuse nothing.
  non_empty_extents_.resize(known);
  // Values made in the body are invalid outside.
  std::erase_if(materialized_, [&](const auto& known) { return isWithin(known.second, body); });
  // A failed attempt leaves no trace: the caller may unroll the loop instead.
  if (!status.ok()) {
    nodes_ = nodes;
    discardLoopBody(body);
    return status;
  }
  return callLoopBody(outer, request, body, border);
}

absl::Status GraphImporter::fillLoopBody(const Node& node, const LoopRequest& request, LoopBuilder build,
                                         mlir::func::FuncOp body, BodyInterface& border) {
  Emitter e = emitter(node.label());
  const auto argument = [&](v1::DataType type, llvm::ArrayRef<int64_t> shape) {
    return block_->addArgument(e.type(interfaceType(type), shape), e.loc);
  };
  // The arguments' order is fixed: iteration number, carried values, then one slice of each scanned tensor.
  LoopArguments arguments;
  arguments.iteration = Emitter::wrap(argument(v1::DATA_TYPE_I64, {}), v1::DATA_TYPE_I64);
  for (const Tensor& carried : request.carried) {
    border.carried.emplace_back().argument = argument(carried.dtype, carried.shape);
    arguments.carried.push_back(fromBorder(e, border.carried.back().argument, carried.dtype));
    arguments.carried.back().extents = carried.extents;
  }
  for (const Tensor& whole : request.scanned) {
    const Value part = argument(whole.dtype, llvm::ArrayRef(whole.shape).drop_front());
    // A slice has no leading dimension, so extents move one to the front.
    arguments.parts.push_back(fromBorder(e, part, whole.dtype));
    for (const auto& [dim, extent] : whole.extents)
      if (dim > 0) arguments.parts.back().extents[dim - 1] = extent;
  }
  TESSERA_ASSIGN_OR_RETURN(border.yield, build(e, arguments));
  const LoopYield& yield = border.yield;
  TESSERA_RETURN_IF_ERROR(checkLoopYield(node, request, yield, body));

  // Results come in the order that LoopOp documents: condition, changed carried values, slices.
  e = emitter(node.label());  // after all lowered operations
  llvm::SmallVector<Value> results;
  border.has_condition = yield.condition || request.condition;
  if (border.has_condition) {
    const Tensor goes_on = yield.condition.value_or(alwaysTrue());
    results.push_back(toBorder(e, e.reshape(goes_on, {})).value);
  }
  for (size_t k = 0; k < request.carried.size(); ++k) {
    // A carried value that each iteration returns unchanged is no state: the body captures its initial value.
    border.carried[k].changes = !yield.carried[k].value || yield.carried[k].value != arguments.carried[k].value;
    if (border.carried[k].changes) results.push_back(toBorder(e, yield.carried[k]).value);
  }
  for (const Tensor& part : yield.parts) results.push_back(toBorder(e, part).value);
  mlir::func::ReturnOp::create(e.b, e.loc, results);
  return absl::OkStatus();
}

LoopResults GraphImporter::callLoopBody(Emitter& outer, const LoopRequest& request, mlir::func::FuncOp body,
                                        const BodyInterface& border) {
  mlir::Block& block = body.getBody().front();
  LoopOp::Form form{.has_trip_count = request.trip_count.has_value(),
                    .has_condition = border.has_condition,
                    .most = request.most,
                    .scanned_reversed = request.scanned_reversed,
                    .stacked_reversed = request.stacked_reversed};
  llvm::SmallVector<Value> operands;
  if (request.trip_count) operands.push_back(outer.value(outer.reshape(*request.trip_count, {})));
  if (form.has_condition)
    operands.push_back(toBorder(outer, outer.reshape(request.condition.value_or(alwaysTrue()), {})).value);
  std::vector<Value> before;  // initial values of carried tensors
  for (const Tensor& carried : request.carried) before.push_back(toBorder(outer, carried).value);
  // Backwards, because erasing an argument renumbers those after it.
  for (size_t k = request.carried.size(); k-- > 0;) {
    if (border.carried[k].changes) continue;
    mlir::BlockArgument argument = mlir::cast<mlir::BlockArgument>(border.carried[k].argument);
    argument.replaceAllUsesWith(before[k]);
    block.eraseArgument(argument.getArgNumber());
  }
  // Captures only now: values that never change have just become outer values too.
  const llvm::SmallVector<Value> captured = captureOuterValues(outer.loc, body);
  mlir::Operation* end = block.getTerminator();
  // Type and operands follow the same order: trip count, condition, carried, scanned, captured.
  body.setFunctionType(mlir::FunctionType::get(&context_, block.getArgumentTypes(), end->getOperandTypes()));
  for (size_t k = 0; k < before.size(); ++k)
    if (border.carried[k].changes) operands.push_back(before[k]);
  form.carried = static_cast<int64_t>(operands.size()) - (form.has_trip_count ? 1 : 0) - (form.has_condition ? 1 : 0);
  for (const Tensor& whole : request.scanned) operands.push_back(toBorder(outer, whole).value);
  for (Value value : captured) {
    const bool boolean = mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType().isInteger(1);
    operands.push_back(boolean ? outer.cast(Emitter::wrap(value, v1::DATA_TYPE_BOOL), v1::DATA_TYPE_I8).value : value);
  }
  LoopOp loop = LoopOp::create(outer.b, outer.loc, body, form, operands);

  LoopResults found;
  // Without both the loop runs exactly `most` times, a constant.
  const bool varies = form.has_trip_count || form.has_condition;
  found.of_constants = llvm::all_of(operands, [](Value operand) {
    mlir::Operation* op = operand.getDefiningOp();
    return op && op->hasTrait<mlir::OpTrait::ConstantLike>();
  });
  found.executed = varies ? Emitter::wrap(loop.executed(), v1::DATA_TYPE_I64) : scalarI64(request.most);
  unsigned next = 0;
  // A carried value that does not change keeps its initial value, and has no result.
  for (size_t k = 0; k < request.carried.size(); ++k) {
    const Tensor& initial = request.carried[k];
    found.carried.push_back(border.carried[k].changes ? fromBorder(outer, loop->getResult(next++), initial.dtype)
                                                      : initial);
    found.carried.back().extents = initial.extents;
  }
  for (const Tensor& part : border.yield.parts) {
    found.stacked.push_back(fromBorder(outer, loop->getResult(next++), part.dtype));
    // A stacked result has the number of executed iterations as leading dimension.
    for (const auto& [dim, extent] : part.extents) found.stacked.back().extents[dim + 1] = extent;
    if (varies) setExtent(found.stacked.back(), 0, found.executed);
  }
  return found;
}

/// Checks that the results of an iteration match the inputs of the next one in type and size.
absl::Status GraphImporter::checkLoopYield(const Node& node, const LoopRequest& request, const LoopYield& yield,
                                           mlir::func::FuncOp body) {
  const auto outside = [&](const Tensor& tensor) {
    return llvm::none_of(tensor.extents, [&](const auto& extent) { return isWithin(extent.second, body); });
  };
  for (size_t k = 0; k < request.carried.size(); ++k) {
    const Tensor &before = request.carried[k], &after = yield.carried[k];
    const bool tensor = !after.sequence && (after.value || after.constant);
    bool same = tensor && after.dtype == before.dtype && after.shape == before.shape &&
                after.extents.size() == before.extents.size() && outside(after);
    for (const auto& [dim, extent] : before.extents) {
      const auto found = after.extents.find(dim);
      same = same && found != after.extents.end() && node.sameExtent(found->second, extent);
    }
    if (same) continue;
    return node.unsupported(
        "an iteration changes the type or shape of a carried value",
        {.attribute = absl::StrCat("value ", k, " (carried)"),
         .found = tensor ? absl::StrCat(shapeText(after.shape), " of ", typeName(after.dtype)) : "no tensor",
         .accepted = absl::StrCat(shapeText(before.shape), " of ", typeName(before.dtype), ", as before the loop")});
  }
  for (const Tensor& part : yield.parts) {
    if (part.sequence || (!part.value && !part.constant) || !outside(part)) {
      return node.unsupported(
          "a result of an iteration is not a tensor, or has an extent that is known at run time only",
          {.accepted = "tensors of one shape and type"});
    }
    Shape whole = part.shape;
    whole.insert(whole.begin(), request.most);
    TESSERA_RETURN_IF_ERROR(node.checkResult(whole, part.dtype));
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
