#include "compiler/graph/plan/loop_bodies.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/underlying_bytes.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;

std::string prefixOf(LoopOp loop) { return absl::StrCat(loop.body().getSymName().str(), ": "); }

llvm::SmallVector<LoopOp> loopsOf(mlir::func::FuncOp main) {
  return llvm::to_vector(main.getBody().front().getOps<LoopOp>());
}

/// out[i] = in[i]: a step that gives a value its own memory.
Value copyOf(mlir::OpBuilder& builder, mlir::Location location, Value value) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  Value empty = mlir::tensor::EmptyOp::create(builder, location, type.getShape(), type.getElementType());
  const mlir::AffineMap identity = builder.getMultiDimIdentityMap(static_cast<unsigned>(type.getRank()));
  const llvm::SmallVector<mlir::utils::IteratorType> loops(static_cast<size_t>(type.getRank()),
                                                           mlir::utils::IteratorType::parallel);
  return mlir::linalg::GenericOp::create(builder, location, type, value, empty,
                                         llvm::ArrayRef<mlir::AffineMap>{identity, identity}, loops,
                                         [](mlir::OpBuilder& inner, mlir::Location at, mlir::ValueRange operands) {
                                           mlir::linalg::YieldOp::create(inner, at, operands[0]);
                                         })
      .getResult(0);
}

/// Whether no step writes the value, because its readers recompute it or read a larger tensor.
bool hasNoMemory(Value value) {
  mlir::Operation* producer = viewSource(value).getDefiningOp();
  const OpKind kind = producer ? kindOf(producer) : OpKind::kOpaque;
  return kind == OpKind::kSlice || kind == OpKind::kCloned;
}

/// Collects the operations that compute such a value, back to values with memory, for copying them into a body.
void collect(Value value, llvm::SetVector<mlir::Operation*>& ops, llvm::SetVector<Value>& sources) {
  mlir::Operation* producer = value.getDefiningOp();
  const OpKind kind = producer ? kindOf(producer) : OpKind::kOpaque;
  if (kind != OpKind::kSlice && kind != OpKind::kCloned && kind != OpKind::kView) {
    sources.insert(value);
    return;
  }
  if (ops.contains(producer)) return;
  for (Value operand : producer->getOperands()) collect(operand, ops, sources);
  ops.insert(producer);
}

/// Recomputes captured operand `index` of the loop inside the body.
void moveIn(LoopOp loop, unsigned index, mlir::func::FuncOp body, unsigned argument) {
  llvm::SetVector<mlir::Operation*> ops;
  llvm::SetVector<Value> sources;
  collect(loop->getOperand(index), ops, sources);
  mlir::Block& block = body.getBody().front();
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&block);
  mlir::IRMapping mapping;
  for (Value source : sources) {
    mapping.map(source, block.addArgument(source.getType(), loop.getLoc()));
    loop->insertOperands(loop->getNumOperands(), source);
  }
  for (mlir::Operation* op : ops) builder.clone(*op, mapping);
  block.getArgument(argument).replaceAllUsesWith(mapping.lookup(loop->getOperand(index)));
}

/// Gives every operand memory, and makes constants part of the body.
void settleOperands(LoopOp loop, mlir::func::FuncOp body, mlir::func::FuncOp main) {
  const unsigned first = loop.firstCaptured();
  mlir::OpBuilder builder(loop);
  for (unsigned i = 0; i < first; ++i)
    if (hasNoMemory(loop->getOperand(i))) loop->setOperand(i, copyOf(builder, loop.getLoc(), loop->getOperand(i)));
  mlir::Block& block = body.getBody().front();
  const unsigned first_argument = block.getNumArguments() - (loop->getNumOperands() - first);
  for (unsigned i = first; i < loop->getNumOperands(); ++i)
    if (hasNoMemory(loop->getOperand(i))) moveIn(loop, i, body, first_argument + i - first);
  // Removes operands without readers, and turns weights into arguments without operands.
  llvm::SmallVector<mlir::Attribute> weights(block.getNumArguments());
  for (unsigned i = loop->getNumOperands(); i-- > first;) {
    const unsigned argument = first_argument + i - first;
    auto outer = mlir::dyn_cast<mlir::BlockArgument>(loop->getOperand(i));
    const mlir::Attribute weight = outer ? main.getArgAttr(outer.getArgNumber(), kWeightAttribute) : mlir::Attribute();
    const bool unread = block.getArgument(argument).use_empty();
    if (!weight && !unread) continue;
    loop->eraseOperand(i);
    weights[argument] = weight;
    if (!unread) continue;
    block.eraseArgument(argument);
    weights.erase(weights.begin() + argument);
  }
  body.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  for (auto [argument, weight] : llvm::enumerate(weights))
    if (weight) body.setArgAttr(static_cast<unsigned>(argument), kWeightAttribute, weight);
}

/// Returns the body, with those of nested loops, in a new module.
ImportedModel modelOf(mlir::func::FuncOp body, const ImportedModel& model) {
  ImportedModel own;
  own.module = mlir::ModuleOp::create(body.getLoc());
  llvm::SetVector<mlir::Operation*> functions;
  functions.insert(body);
  for (size_t i = 0; i < functions.size(); ++i) {
    functions[i]->walk([&](LoopOp inner) {
      if (mlir::func::FuncOp function = inner.body()) functions.insert(function);
    });
  }
  for (mlir::Operation* function : functions) {
    function->remove();
    own.module->push_back(function);
  }
  body.setSymName("main");
  body.setPublic();
  own.weights = model.weights;
  for (auto [index, type] : llvm::enumerate(body.getArgumentTypes())) {
    if (body.getArgAttr(static_cast<unsigned>(index), kWeightAttribute)) continue;
    own.inputs.push_back(specOf(absl::StrCat("argument", index), type));
  }
  for (auto [index, type] : llvm::enumerate(body.getResultTypes()))
    own.outputs.push_back(specOf(absl::StrCat("result", index), type));
  return own;
}

}  // namespace

std::vector<v1::Choice> pinsOutsideLoops(mlir::func::FuncOp main, const std::vector<v1::Choice>& pins) {
  const llvm::SmallVector<LoopOp> loops = loopsOf(main);
  std::vector<v1::Choice> outside;
  for (const v1::Choice& pin : pins) {
    const auto within = [&](LoopOp loop) { return absl::StartsWith(pin.place(), prefixOf(loop)); };
    if (llvm::none_of(loops, within)) outside.push_back(pin);
  }
  return outside;
}

absl::StatusOr<LoopPlans> planLoopBodies(mlir::func::FuncOp main, const ImportedModel& model, const v1::Target& target,
                                         const GraphOptions& options) {
  LoopPlans plans;
  for (LoopOp loop : loopsOf(main)) {
    mlir::func::FuncOp body = loop.body();
    if (!body) return failureStatus(v1::Failure::INTERNAL, "a loop has no body");
    GraphOptions of_body = options;
    of_body.states.clear();      // states are tensors of the whole model
    of_body.observer = nullptr;  // it interprets models on arbitrary inputs, which a body may not accept
    of_body.pins.clear();
    for (const v1::Choice& pin : options.pins) {
      if (!absl::StartsWith(pin.place(), prefixOf(loop))) continue;
      of_body.pins.push_back(pin);
      of_body.pins.back().set_place(pin.place().substr(prefixOf(loop).size()));
    }
    settleOperands(loop, body, main);
    const std::string name = body.getSymName().str();
    TESSERA_ASSIGN_OR_RETURN(PlannedGraph planned, planGraph(modelOf(body, model), target, of_body));
    for (v1::Choice& choice : *planned.plan.mutable_report()->mutable_choices())
      choice.set_place(absl::StrCat(name, ": ", choice.place()));
    plans.emplace_back(loop, std::move(planned));
  }
  return plans;
}

void addDecisionsOfLoops(LoopPlans& loops, v1::GraphReport& report) {
  for (auto& [loop, planned] : loops) {
    v1::GraphReport& own = *planned.plan.mutable_report();
    for (v1::Decision& decision : *own.mutable_decisions()) *report.add_decisions() = std::move(decision);
    for (v1::Choice& choice : *own.mutable_choices()) *report.add_choices() = std::move(choice);
    for (v1::RewriteCount& rewrite : *own.mutable_rewrites()) {
      const auto known = llvm::find_if(*report.mutable_rewrites(),
                                       [&](const v1::RewriteCount& each) { return each.name() == rewrite.name(); });
      if (known == report.mutable_rewrites()->end()) {
        *report.add_rewrites() = std::move(rewrite);
      } else {
        known->set_count(known->count() + rewrite.count());
      }
    }
    report.set_layout_transforms(report.layout_transforms() + own.layout_transforms());
    report.set_layout_transforms_before(report.layout_transforms_before() + own.layout_transforms_before());
  }
}

}  // namespace tessera::compiler
