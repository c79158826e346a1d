#include "compiler/interpreter/interpreter.h"

#include "absl/strings/str_cat.h"
#include "compiler/interpreter/machine.h"
#include "compiler/interpreter/structure.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {
namespace {

/// Whether a structured operation reads nothing but its operands.
// Results of such an operation depend on its operands alone, so they can be cached.
bool isClosed(mlir::linalg::LinalgOp op) {
  bool closed = true;
  op->walk([&](mlir::Operation* each) {
    if (each == op.getOperation()) return;
    for (mlir::Value operand : each->getOperands()) closed &= op->isAncestor(operand.getParentBlock()->getParentOp());
  });
  return closed;
}

void addNames(mlir::Location location, std::vector<std::string>& names) {
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(location)) {
    if (std::find(names.begin(), names.end(), name.getName().str()) == names.end())
      names.push_back(name.getName().str());
  } else if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location each : fused.getLocations()) addNames(each, names);
  }
}

absl::Status inOperation(mlir::Operation* op, const absl::Status& status) {
  if (status.message().find("; in ") != std::string::npos) return status;
  const std::string place = placeOf(op->getLoc());
  return {status.code(), absl::StrCat(status.message(), "; in ", op->getName().getStringRef().str(),
                                      place.empty() ? "" : " of " + place)};
}

}  // namespace

std::string placeOf(mlir::Location location) {
  std::vector<std::string> names;
  addNames(location, names);
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, text.empty() ? "" : ", ", name);
  return text;
}

const std::vector<Array>* ResultCache::find(uint64_t key) {
  auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  it->second.age = 0;
  return &it->second.results;
}

void ResultCache::keep(uint64_t key, std::vector<Array> results) { entries_[key] = {std::move(results), 0}; }

void ResultCache::age() {
  for (auto it = entries_.begin(); it != entries_.end();)
    // Results that two further steps did not use are dropped.
    it = it->second.age++ > 1 ? entries_.erase(it) : std::next(it);
}

Machine::Machine(const Options& options) : options_(options), budget_(options.budget ? *options.budget : unbounded_) {}

absl::Status Machine::charge(int64_t operations) {
  budget_ -= operations;
  return budget_ < 0 ? absl::ResourceExhaustedError("too many operations") : absl::OkStatus();
}

int64_t Machine::index(mlir::OpFoldResult value) const {
  if (auto attribute = llvm::dyn_cast<mlir::Attribute>(value)) return llvm::cast<mlir::IntegerAttr>(attribute).getInt();
  return scalar(llvm::cast<mlir::Value>(value)).integer;
}

Extents Machine::indices(llvm::ArrayRef<mlir::OpFoldResult> values) const {
  Extents result;
  for (mlir::OpFoldResult value : values) result.push_back(index(value));
  return result;
}

void Machine::findLastUses(mlir::Block& block) {
  if (!analyzed_.insert({&block, true}).second) return;
  llvm::DenseSet<mlir::Value> used;
  // Backwards: the first use that is met is the last one in program order.
  for (mlir::Operation& op : llvm::reverse(block)) {
    op.walk([&](mlir::Operation* each) {
      for (mlir::Value operand : each->getOperands()) {
        if (operand.getParentBlock() == &block && used.insert(operand).second) dies_[&op].push_back(operand);
      }
    });
  }
}

const llvm::SmallVector<mlir::Value>& Machine::diesAt(mlir::Operation* op) {
  findLastUses(*op->getBlock());
  return dies_[op];
}

Array Machine::take(mlir::Value value, mlir::Operation* op) {
  if (!llvm::is_contained(diesAt(op), value)) return array(value);
  // An operation that uses the value twice, or in a nested region, still needs it.
  if (llvm::count(op->getOperands(), value) > 1) return array(value);
  if (llvm::any_of(value.getUsers(), [&](mlir::Operation* user) { return op->isProperAncestor(user); })) {
    return array(value);
  }
  auto it = arrays_.find(value);
  Array taken = std::move(it->second);
  arrays_.erase(it);
  return taken;
}

Surroundings Machine::surroundings() const {
  return {[this](mlir::Value value) {
            auto it = arrays_.find(value);
            return it == arrays_.end() ? nullptr : &it->second;
          },
          [this](mlir::Value value) {
            auto it = scalars_.find(value);
            return it == scalars_.end() ? nullptr : &it->second;
          }};
}

absl::Status Machine::runLinalg(mlir::linalg::LinalgOp op) {
  std::vector<Operand> inputs;
  std::vector<Array> outputs;
  for (mlir::Value input : op.getDpsInputs()) {
    if (llvm::isa<mlir::ShapedType>(input.getType())) {
      inputs.push_back({array(input), {}, false});
    } else {
      inputs.push_back({{}, scalar(input), true});
    }
  }
  const bool tensors = op.hasPureTensorSemantics();
  for (mlir::Value init : op.getDpsInits()) {
    // A tensor at its last use is updated in place; otherwise it is copied. Buffers are always updated in place.
    outputs.push_back(tensors ? ownedDense(take(init, op)) : array(init));
  }
  TESSERA_RETURN_IF_ERROR(runStructured(op, inputs, outputs, surroundings(), budget_));
  if (!tensors) return absl::OkStatus();
  for (auto [result, output] : llvm::zip_equal(op->getResults(), outputs)) set(result, std::move(output));
  return absl::OkStatus();
}

absl::Status Machine::runCached(mlir::Operation* op, uint64_t key, llvm::function_ref<absl::Status()> run) {
  for (mlir::Value operand : op->getOperands()) {
    if (llvm::isa<mlir::ShapedType>(operand.getType())) {
      key = mix(key, hashOf(array(operand)));
    } else {
      const Scalar value = scalar(operand);
      for (double part : {value.real, value.error}) key = mix(key, std::bit_cast<uint64_t>(part));
      key = mix(key, static_cast<uint64_t>(value.integer));
    }
  }
  if (const std::vector<Array>* found = options_.cache->find(key)) {
    for (auto [result, value] : llvm::zip_equal(op->getResults(), *found)) set(result, value);
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(run());
  std::vector<Array> results;
  for (mlir::Value result : op->getResults()) results.push_back(array(result));
  options_.cache->keep(key, std::move(results));
  return absl::OkStatus();
}

absl::Status Machine::runStructuredOp(mlir::linalg::LinalgOp op) {
  if (!options_.cache || !op.hasPureTensorSemantics() || !isClosed(op)) return runLinalg(op);
  return runCached(op, structureOf(op), [&] { return runLinalg(op); });
}

/// A scalar operation outside of bodies is executed as a body of one operation at one point.
absl::Status Machine::runScalar(mlir::Operation* op) {
  RuleContext context;
  const Rule rule = ruleOf(op, context);
  if (!rule) return absl::UnimplementedError("the interpreter has no rule for this operation");
  TESSERA_RETURN_IF_ERROR(charge(1));
  static thread_local Lanes operands[3], result;
  const Lanes* in[3] = {&operands[0], &operands[1], &operands[2]};
  for (unsigned o = 0; o < op->getNumOperands(); ++o) operands[o].set(0, scalar(op->getOperand(o)));
  result.set(0, {});
  rule(context, in, result, 1);
  set(op->getResult(0), result.get(0));
  return absl::OkStatus();
}

void Machine::move(mlir::Value from, mlir::Value to, mlir::Operation* op) {
  if (auto it = scalars_.find(from); it != scalars_.end() && !llvm::isa<mlir::ShapedType>(from.getType())) {
    const Scalar value = it->second;
    set(to, value);
  } else {
    set(to, take(from, op));
  }
}

absl::Status Machine::yieldTo(mlir::Operation* terminator, mlir::ValueRange targets) {
  // All at once, since a loop may exchange its values.
  llvm::SmallVector<std::variant<Array, Scalar>> values;
  for (mlir::Value value : terminator->getOperands()) {
    if (llvm::isa<mlir::ShapedType>(value.getType())) {
      values.emplace_back(take(value, terminator));
    } else {
      values.emplace_back(scalar(value));
    }
  }
  for (auto [target, value] : llvm::zip_equal(targets, values)) {
    if (std::holds_alternative<Array>(value)) {
      set(target, std::move(std::get<Array>(value)));
    } else {
      set(target, std::get<Scalar>(value));
    }
  }
  return absl::OkStatus();
}

std::vector<Array> Machine::takeResults(mlir::Block& block) {
  std::vector<Array> results;
  for (mlir::Value result : block.getTerminator()->getOperands())
    results.push_back(take(result, block.getTerminator()));
  return results;
}

absl::Status Machine::runFor(mlir::Operation* op) {
  auto loop = llvm::cast<mlir::scf::ForOp>(op);
  const int64_t first = scalar(loop.getLowerBound()).integer, end = scalar(loop.getUpperBound()).integer;
  const int64_t step = scalar(loop.getStep()).integer;
  if (step <= 0) return absl::OutOfRangeError("a loop whose step is not positive");
  for (auto [init, argument] : llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs())) move(init, argument, op);
  for (int64_t i = first; i < end; i += step) {
    set(loop.getInductionVar(), Scalar{0, i, 0});
    TESSERA_RETURN_IF_ERROR(run(*loop.getBody()));
    TESSERA_RETURN_IF_ERROR(yieldTo(loop.getBody()->getTerminator(), loop.getRegionIterArgs()));
  }
  for (auto [argument, result] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getResults())) {
    if (llvm::isa<mlir::ShapedType>(argument.getType())) {
      // Moved, so that the result is the only owner and later operations can update it in place.
      Array value = std::move(arrays_.find(argument)->second);
      arrays_.erase(argument);
      set(result, std::move(value));
    } else {
      set(result, scalar(argument));
    }
  }
  return absl::OkStatus();
}

absl::Status Machine::runIf(mlir::Operation* op) {
  auto branch = llvm::cast<mlir::scf::IfOp>(op);
  const Scalar condition = scalar(branch.getCondition());
  mlir::Region& region = condition.integer != 0 ? branch.getThenRegion() : branch.getElseRegion();
  if (region.empty()) return absl::OkStatus();
  TESSERA_RETURN_IF_ERROR(run(region.front()));
  TESSERA_RETURN_IF_ERROR(yieldTo(region.front().getTerminator(), branch.getResults()));
  if (condition.error == 0) return absl::OkStatus();
  // The branch depends on a comparison that rounding may change.
  for (mlir::Value result : branch.getResults()) {
    if (!llvm::isa<mlir::ShapedType>(result.getType())) {
      scalars_[result].error = kUnknownError;
      continue;
    }
    // A copy: the branch may have yielded an array that has other readers.
    Array unsure = ownedDense(array(result));
    std::fill(unsure.storage->error.begin(), unsure.storage->error.end(), kUnknownError);
    set(result, std::move(unsure));
  }
  return absl::OkStatus();
}

absl::Status Machine::runWhile(mlir::Operation* op) {
  auto loop = llvm::cast<mlir::scf::WhileOp>(op);
  mlir::Block &before = loop.getBefore().front(), &after = loop.getAfter().front();
  for (auto [init, argument] : llvm::zip_equal(loop.getInits(), before.getArguments())) move(init, argument, op);
  while (true) {
    TESSERA_RETURN_IF_ERROR(run(before));
    auto condition = llvm::cast<mlir::scf::ConditionOp>(before.getTerminator());
    const Scalar again = scalar(condition.getCondition());
    if (again.error > 0) return absl::FailedPreconditionError("the rounding of its condition decides when a loop ends");
    // The condition's operands become either the body's arguments or the loop's results.
    const mlir::ValueRange targets = again.integer != 0 ? mlir::ValueRange(after.getArguments()) : loop.getResults();
    for (auto [value, target] : llvm::zip_equal(condition.getArgs(), targets)) move(value, target, condition);
    if (again.integer == 0) return absl::OkStatus();
    TESSERA_RETURN_IF_ERROR(run(after));
    TESSERA_RETURN_IF_ERROR(yieldTo(after.getTerminator(), before.getArguments()));
  }
}

bool Machine::isReady(mlir::Operation* op) const {
  const auto has = [&](mlir::Value value) { return arrays_.contains(value) || scalars_.contains(value); };
  if (!llvm::all_of(op->getOperands(), has)) return false;
  if (!llvm::isa<mlir::linalg::LinalgOp>(op)) return true;
  bool ready = true;
  op->walk([&](mlir::Operation* each) {
    for (mlir::Value operand : each->getOperands()) {
      ready &= op->isAncestor(operand.getParentBlock()->getParentOp()) || has(operand);
    }
  });
  return ready;
}

absl::Status Machine::runOne(mlir::Operation* op) {
  // A rewritten module may be wrong in any way, so check that operands have been computed.
  if (!isReady(op)) return absl::InternalError("it reads a value that is computed later or nowhere");
  if (auto structured = llvm::dyn_cast<mlir::linalg::LinalgOp>(op)) return runStructuredOp(structured);
  for (auto* rule : {runTensorOp, runBufferOp}) {
    TESSERA_ASSIGN_OR_RETURN(bool done, rule(*this, op));
    if (done) return absl::OkStatus();
  }
  if (llvm::isa<mlir::scf::ForOp>(op)) return runFor(op);
  if (llvm::isa<mlir::scf::IfOp>(op)) return runIf(op);
  if (llvm::isa<mlir::scf::WhileOp>(op)) return runWhile(op);
  if (ModelLoop::isLoop(op)) return runModelLoop(op);
  return runScalar(op);
}

absl::Status Machine::run(mlir::Block& block) {
  for (mlir::Operation& op : block.without_terminator()) {
    if (absl::Status status = runOne(&op); !status.ok()) return inOperation(&op, status);
    if (options_.observe) {
      for (mlir::OpResult result : op.getResults()) {
        if (auto it = arrays_.find(result); it != arrays_.end()) {
          options_.observe(&op, result.getResultNumber(), it->second);
        }
      }
    }
    for (mlir::Value value : diesAt(&op)) arrays_.erase(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Array>> interpret(mlir::func::FuncOp func, std::vector<Array> arguments,
                                             const Options& options) {
  if (!func.getBody().hasOneBlock() || arguments.size() != func.getNumArguments()) {
    return absl::UnimplementedError("the function has several blocks, or the number of arguments differs");
  }
  Machine machine(options);
  mlir::Block& body = func.getBody().front();
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments)) machine.set(argument, value);
  TESSERA_RETURN_IF_ERROR(machine.run(body));
  return machine.takeResults(body);
}

}  // namespace tessera::compiler::interpreter
