#include "compiler/graph/rewrites/cut_bodies.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/ir/register_pressure.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;
using mlir::Value;
using mlir::linalg::GenericOp;
using Values = llvm::SetVector<Value>;

constexpr char kCutChoice[] = "cut";

/// Whether the value needs no register: constants are memory operands, and indices are recomputed at each use.
bool isFree(Operation* op) {
  return op->hasTrait<mlir::OpTrait::ConstantLike>() || mlir::isa<mlir::linalg::IndexOp>(op);
}
bool isFree(Value value) { return value.getDefiningOp() && isFree(value.getDefiningOp()); }

/// A body as a sequence of operations; free operations are recomputed by each reader.
class Body {
 public:
  explicit Body(GenericOp op) : op_(op) {
    for (Operation& inner : op.getBody()->without_terminator())
      if (!isFree(&inner)) line_.push_back(&inner);
  }

  int size() const { return static_cast<int>(line_.size()); }
  llvm::ArrayRef<Operation*> part(int first, int end) const { return llvm::ArrayRef(line_).slice(first, end - first); }
  Values results() const {
    auto yielded = op_.getBody()->getTerminator()->getOperands();
    return {yielded.begin(), yielded.end()};
  }
  /// Returns the values that operations before `end` define and later ones read.
  Values crossing(int end) const {
    Values made;
    for (Operation* op : part(0, end)) made.insert(op->result_begin(), op->result_end());
    Values read = results();
    for (Operation* op : part(end, size())) read.insert(op->operand_begin(), op->operand_end());
    // Constants and indices are recomputed and never cross.
    read.remove_if([&](Value value) { return !made.contains(value); });
    return read;
  }
  /// Returns the operands that operations of a part read or return.
  Values arguments(int first, int end) const {
    Values read;
    for (Operation* op : part(first, end))
      for (Value operand : op->getOperands())
        if (operand.getParentBlock() == op_.getBody() && mlir::isa<mlir::BlockArgument>(operand)) read.insert(operand);
    // Yielded arguments are read by the last part.
    if (end < size()) return read;
    for (Value value : results())
      if (mlir::isa<mlir::BlockArgument>(value)) read.insert(value);
    return read;
  }

  /// Returns the number of values live at once in a part that ends with `results`, which stay live until their stores.
  int live(int first, int end, const Values& results) const {
    LiveValues line;
    for (Operation* op : part(first, end)) {
      // Operands are alive up to this operation, results from it on.
      for (Value operand : op->getOperands())
        if (!isFree(operand)) line.use({0, operand.getAsOpaquePointer()});
      line.next();
      for (Value result : op->getResults()) line.define({0, result.getAsOpaquePointer()});
    }
    line.next();
    for (Value result : results)
      if (!isFree(result)) line.use({0, result.getAsOpaquePointer()});
    return line.maxLive();
  }
  int live() const { return live(0, size(), results()); }

 private:
  mutable GenericOp op_;  // a handle
  std::vector<Operation*> line_;
};

/// A position to cut, and its cost.
struct Cut {
  int at = 0;       ///< operations of the first part
  Values crossing;  ///< stored by the first part, loaded by the second
  int again = 0;    ///< operands that both parts load
  int live = 0;     ///< of the part with more live values
  int moved() const { return 2 * static_cast<int>(crossing.size()) + again; }
};

/// Returns the cut with the fewest crossing values such that both parts fit into the registers; if there is none, the
/// cut with the fewest live values.
std::optional<Cut> bestCut(const Body& body, int registers) {
  std::optional<Cut> best;
  auto rank = [&](const Cut& cut) {
    // First the parts must fit, then few values may cross; position decides ties.
    return std::tuple(std::max(0, cut.live - registers), cut.moved(), cut.live, cut.at);
  };
  const int whole = body.live();
  for (int at = 1; at < body.size(); ++at) {
    Cut cut{.at = at, .crossing = body.crossing(at)};
    // A bit has no tensor type to be stored in.
    const bool storable = llvm::all_of(cut.crossing, [](Value value) {
      return value.getType().isIntOrFloat() && value.getType().getIntOrFloatBitWidth() >= 8;
    });
    if (!storable || cut.crossing.empty()) continue;
    cut.live = std::max(body.live(0, at, cut.crossing), body.live(at, body.size(), body.results()));
    // A cut that helps neither part is no cut.
    if (cut.live >= whole) continue;
    const Values first = body.arguments(0, at), second = body.arguments(at, body.size());
    cut.again = static_cast<int>(llvm::count_if(second, [&](Value value) { return first.contains(value); }));
    if (!best || rank(cut) < rank(*best)) best = std::move(cut);
  }
  return best;
}

bool isBody(GenericOp op) {
  if (kindOf(op) != OpKind::kElementwise || op.getNumDpsInits() != 1) return false;
  for (mlir::BlockArgument argument : op.getBody()->getArguments().drop_front(op.getNumDpsInputs()))
    if (!argument.use_empty()) return false;  // reads the previous contents
  return llvm::all_of(*op.getBody(), [](Operation& inner) { return inner.getNumRegions() == 0; });
}

/// Builds the operation that runs `part` and returns `results`, on operands of `op` and on the values in `made`.
GenericOp partOf(GenericOp op, llvm::ArrayRef<Operation*> part, const Values& arguments, const Values& results,
                 llvm::ArrayRef<std::pair<Value, Value>> made, mlir::ValueRange inits) {
  mlir::OpBuilder builder(op);
  llvm::SmallVector<Value> inputs;
  llvm::SmallVector<mlir::AffineMap> maps;
  for (Value argument : arguments) {
    mlir::OpOperand& operand = op->getOpOperand(mlir::cast<mlir::BlockArgument>(argument).getArgNumber());
    inputs.push_back(operand.get());
    maps.push_back(op.getMatchingIndexingMap(&operand));
  }
  const mlir::AffineMap identity = builder.getMultiDimIdentityMap(op.getNumLoops());
  for (const auto& [inside, tensor] : made) inputs.push_back(tensor);
  maps.append(made.size() + inits.size(), identity);
  return GenericOp::create(builder, op.getLoc(), inits.getTypes(), inputs, inits, maps, op.getIteratorTypesArray(),
                           [&](mlir::OpBuilder& inner, mlir::Location at, mlir::ValueRange values) {
                             mlir::IRMapping mapping;
                             for (auto [argument, value] : llvm::zip(arguments, values)) mapping.map(argument, value);
                             for (auto [index, each] : llvm::enumerate(made))
                               mapping.map(each.first, values[arguments.size() + index]);
                             // Clones free values where they are read first.
                             auto free = [&](Value value) {
                               if (isFree(value) && value.getParentBlock() == op.getBody() && !mapping.contains(value))
                                 inner.clone(*value.getDefiningOp(), mapping);
                             };
                             for (Operation* each : part) {
                               llvm::for_each(each->getOperands(), free);
                               inner.clone(*each, mapping);
                             }
                             llvm::for_each(results, free);
                             llvm::SmallVector<Value> yielded;
                             for (Value result : results) yielded.push_back(mapping.lookupOrDefault(result));
                             mlir::linalg::YieldOp::create(inner, at, yielded);
                           });
}

std::pair<GenericOp, GenericOp> apply(GenericOp op, const Body& body, const Cut& cut) {
  mlir::OpBuilder builder(op);
  const auto shape = mlir::cast<mlir::RankedTensorType>(op.getResult(0).getType()).getShape();
  llvm::SmallVector<Value> between;
  for (Value value : cut.crossing)
    between.push_back(mlir::tensor::EmptyOp::create(builder, op.getLoc(), shape, value.getType()));
  GenericOp first = partOf(op, body.part(0, cut.at), body.arguments(0, cut.at), cut.crossing, {}, between);
  llvm::SmallVector<std::pair<Value, Value>> made;
  for (auto [value, tensor] : llvm::zip_equal(cut.crossing, first.getResults())) made.emplace_back(value, tensor);
  GenericOp second = partOf(op, body.part(cut.at, body.size()), body.arguments(cut.at, body.size()), body.results(),
                            made, op.getDpsInits());
  op->replaceAllUsesWith(second->getResults());
  op.erase();
  return {first, second};
}

}  // namespace

std::vector<v1::Decision> splitBodies(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices) {
  std::vector<v1::Decision> decisions;
  const int registers = chip.vectorRegisters();
  // A queue in program order, so that decisions come in that order, too.
  std::deque<GenericOp> left;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>())
    if (isBody(op)) left.push_back(op);
  while (!left.empty()) {
    GenericOp op = left.front();
    left.pop_front();
    const Body body(op);
    const int live = body.live();
    if (live <= registers) continue;
    v1::Decision& decision = decisions.emplace_back();
    decision.set_kind(kCutChoice);
    decision.set_place(choices.nextPlace(kCutChoice, nodeNames(op.getLoc())));
    decision.set_unit("values");
    const std::string pinned = choices.pinnedFusion(kCutChoice, decision.place());
    const std::optional<Cut> cut = bestCut(body, registers);
    // A value that finds no register is stored and loaded once.
    const int spilled = 2 * (live - registers);
    std::string reason = absl::StrCat(live, " values are alive at once for ", registers, " registers");
    if (cut) {
      const bool pays = cut->moved() < spilled;
      decision.set_taken(pinned.empty() ? pays : pinned == kSeparate);
      absl::StrAppend(&reason, ": behind ", cut->at, " of ", body.size(), " operations ", cut->crossing.size(),
                      cut->crossing.size() == 1 ? " crosses" : " cross", " and ", cut->live, " are alive; that moves ",
                      cut->moved(), " a point, spills would move ", spilled);
      if (pays != decision.taken()) absl::StrAppend(&reason, "; pinned");
      decision.set_cost(decision.taken() ? cut->moved() : spilled);
      decision.set_alternative_cost(decision.taken() ? spilled : cut->moved());
    } else {
      absl::StrAppend(&reason, ", wherever it is cut");
      if (pinned == kSeparate) choices.refuse(kCutChoice, decision.place(), reason, kFused);
    }
    decision.set_reason(std::move(reason));
    choices.record(kCutChoice, decision.place(), decision.taken() ? kSeparate : kFused);
    if (!decision.taken()) continue;
    // Both parts may need further cuts; they are looked at next.
    auto [first, second] = apply(op, body, *cut);
    left.push_front(second);
    left.push_front(first);
  }
  return decisions;
}

}  // namespace tessera::compiler
