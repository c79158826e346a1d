#include "compiler/verification/graph_check.h"

#include "absl/strings/str_cat.h"
#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/model_loop.h"
#include "compiler/interpreter/random_array.h"
#include "compiler/ir/weight_attribute.h"
#include "compiler/verification/limit_status.h"
#include "compiler/verification/plan_run.h"
#include "llvm/ADT/DenseSet.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::verification {
namespace {

using interpreter::Array;

/// Operations of @main on which a result depends.
llvm::DenseSet<mlir::Operation*> behind(mlir::func::FuncOp main, int output) {
  llvm::DenseSet<mlir::Operation*> seen;
  llvm::SmallVector<mlir::Value> work = {main.getBody().front().getTerminator()->getOperand(output)};
  while (!work.empty()) {
    mlir::Operation* op = work.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second) continue;
    op->walk([&](mlir::Operation* each) { work.append(each->operand_begin(), each->operand_end()); });
  }
  return seen;
}

/// Sets inputs that are trip counts or conditions so that loops run: a body that never runs is not checked.
void letLoopsRun(mlir::func::FuncOp main, std::vector<Array>& inputs) {
  constexpr int64_t kIterations = 3;
  size_t input = 0;
  for (mlir::BlockArgument argument : main.getArguments()) {
    if (main.getArgAttr(argument.getArgNumber(), kWeightAttribute) || input == inputs.size()) continue;
    Array& array = inputs[input++];
    for (mlir::OpOperand& use : argument.getUses()) {
      if (!interpreter::ModelLoop::isLoop(use.getOwner())) continue;
      const auto loop = interpreter::ModelLoop::of(use.getOwner());
      if (!loop.ok() || use.getOperandNumber() >= loop->firstCarried()) continue;
      const bool counts = loop->has_trip_count && use.getOperandNumber() == 0;
      array.set(0, {0, !counts ? 1 : loop->most < 0 ? kIterations : std::min(kIterations, loop->most), 0});
    }
  }
}

v1::VerifiedStep stepNamed(const std::string& name) {
  v1::VerifiedStep step;
  step.set_step(name);
  return step;
}

}  // namespace

GraphCheck::Trace GraphCheck::traceOf(const Array& array) {
  Trace trace;
  const bool real = array.storage->element.isReal();
  interpreter::forEachPosition(array, [&](int64_t position) {
    const interpreter::Scalar value = array.at(position);
    const double x = real ? value.real : static_cast<double>(value.integer);
    // NaN and unknown values would make all traces unequal.
    if (!std::isfinite(x) || value.error >= interpreter::kUnknownError) return;
    trace.sum += x;
    trace.magnitude += std::fabs(x);
    trace.squares += x * x;
  });
  return trace;
}

bool GraphCheck::Trace::resembles(const Trace& other) const {
  constexpr double kNear = 1e-5;
  // Relative to the magnitudes, since a sum may cancel.
  return std::fabs(sum - other.sum) <= kNear * (magnitude + other.magnitude) &&
         std::fabs(magnitude - other.magnitude) <= kNear * (magnitude + other.magnitude) &&
         std::fabs(squares - other.squares) <= kNear * (squares + other.squares);
}

bool GraphCheck::isKnown(const Trace& trace) const {
  return llvm::any_of(known_, [&](const Trace& known) { return trace.resembles(known); });
}

interpreter::Options GraphCheck::optionsFor(std::vector<Trace>& traces, int64_t& left) {
  interpreter::Options options;
  options.budget = &left;
  options.cache = &cache_;
  options.observe = [&traces](mlir::Operation* op, unsigned, const Array& array) {
    Trace trace = traceOf(array);
    trace.op = op;
    trace.node = interpreter::placeOf(op->getLoc());
    trace.place = absl::StrCat(op->getName().getStringRef().str(), trace.node.empty() ? "" : " of ", trace.node);
    traces.push_back(std::move(trace));
  };
  return options;
}

void GraphCheck::skip(const std::string& step, const absl::Status& why) {
  steps_.push_back(stepNamed(step));
  steps_.back().set_skipped(why.code() == absl::StatusCode::kResourceExhausted
                                ? absl::StrCat("interpreting it takes more than the ", allowance(),
                                               " operations that are left; compile it at a smaller size")
                                : std::string(why.message()));
}

absl::Status GraphCheck::imported(const ImportedModel& model) {
  unavailable_.clear();
  lost_.reset();
  steps_.clear();
  known_.clear();
  context_ = (*model.module).getContext();
  outputs_ = model.outputs;
  auto main = mlir::ModuleOp(*model.module).lookupSymbol<mlir::func::FuncOp>("main");
  if (interpreter::operationsOf(main) > allowance()) {
    skip("import", absl::ResourceExhaustedError(""));
    unavailable_ = steps_.back().skipped();
    return absl::OkStatus();
  }
  absl::Status status;
  // Integers may be indices: tries smaller ones until no access leaves its tensor.
  for (const interpreter::InputRange& range : interpreter::inputRanges(seed_)) {
    inputs_.clear();
    for (const v1::TensorSpec& spec : model.inputs) {
      interpreter::InputRange own = range;
      own.seed = range.seed * 1000 + inputs_.size();
      const llvm::SmallVector<int64_t> shape(spec.shape().begin(), spec.shape().end());
      inputs_.push_back(interpreter::randomArray(elementOf(spec), shape, own));
      if (spec.dtype() != v1::DATA_TYPE_BOOL) continue;
      for (int64_t& value : inputs_.back().storage->integer) value &= 1;
    }
    letLoopsRun(main, inputs_);
    known_.clear();
    int64_t left = allowance();
    absl::StatusOr<std::vector<Array>> outputs = runMain(model, inputs_, weights_, optionsFor(known_, left));
    if (outputs.ok()) budget_.model -= allowance() - left;
    status = outputs.status();
    if (outputs.ok()) expected_ = *std::move(outputs);
    // Out of range: an index left its tensor. The next, smaller range of integers is tried.
    if (status.code() != absl::StatusCode::kOutOfRange) break;
  }
  for (const Array& input : inputs_) known_.push_back(traceOf(input));
  if (!status.ok()) {
    skip("import", status);
    unavailable_ = steps_.back().skipped();
    return absl::OkStatus();
  }
  v1::VerifiedStep step = stepNamed("import");
  int64_t elements = 0, undecided = 0;
  for (const Array& output : expected_) {
    const interpreter::Difference self = interpreter::compare(output, output);
    elements += self.elements;
    undecided += self.undecided;
  }
  step.set_elements(elements);
  step.set_undecided(undecided);
  steps_.push_back(step);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<Array>>> GraphCheck::runAfter(const std::string& rewrite,
                                                                       const ImportedModel& model,
                                                                       std::vector<Trace>& traces) {
  if (!unavailable_.empty()) {
    skip(rewrite, absl::UnimplementedError("the imported model was not interpreted"));
    return std::nullopt;
  }
  int64_t left = allowance();
  absl::StatusOr<std::vector<Array>> outputs = runMain(model, inputs_, weights_, optionsFor(traces, left));
  cache_.age();
  if (outputs.ok()) budget_.model -= allowance() - left;
  if (!outputs.ok()) {
    if (!isLimit(outputs.status())) {
      return failureStatus(
          v1::Failure::INTERNAL,
          absl::StrCat("verification: after ", rewrite, " the model cannot be run: ", outputs.status().message()));
    }
    skip(rewrite, outputs.status());
    return std::nullopt;
  }
  return *std::move(outputs);
}

absl::Status GraphCheck::rewritten(const std::string& rewrite, const ImportedModel& model) {
  std::vector<Trace> traces;
  auto outputs = runAfter(rewrite, model, traces);
  if (!outputs.ok() || !*outputs) return outputs.status();
  auto main = mlir::ModuleOp(*model.module).lookupSymbol<mlir::func::FuncOp>("main");
  return compareOutputs(rewrite, **outputs, std::move(traces), main);
}

absl::Status GraphCheck::resultsChanged(const std::string& rewrite, const ImportedModel& model) {
  std::vector<Trace> traces;
  TESSERA_ASSIGN_OR_RETURN(auto outputs, runAfter(rewrite, model, traces));
  if (!outputs) {
    // Later steps would be compared with outputs that were not computed.
    unavailable_ = steps_.back().skipped();
    return absl::OkStatus();
  }
  v1::VerifiedStep report = stepNamed(rewrite);
  lost_ = 0;
  // Such a rewrite changes the outputs on purpose: its loss is reported, and later steps are compared with the new
  // outputs.
  for (auto [before, after] : llvm::zip_equal(expected_, *outputs)) {
    double largest = 0, error = 0;
    if (!before.storage->element.isReal()) continue;
    llvm::SmallVector<double> values;
    interpreter::forEachPosition(before, [&](int64_t position) { values.push_back(before.at(position).real); });
    size_t next = 0;
    interpreter::forEachPosition(after, [&](int64_t position) {
      const double was = values[next++], is = after.at(position).real;
      if (!std::isfinite(was) || !std::isfinite(is)) return;
      largest = std::max(largest, std::fabs(was));
      error = std::max(error, std::fabs(is - was));
    });
    report.set_elements(report.elements() + static_cast<int64_t>(values.size()));
    report.set_largest_error(std::max(report.largest_error(), error));
    if (largest > 0) lost_ = std::max(*lost_, error / largest);
  }
  steps_.push_back(report);
  expected_ = *std::move(outputs);
  for (const Array& input : inputs_) traces.push_back(traceOf(input));
  known_ = std::move(traces);
  return absl::OkStatus();
}

absl::Status GraphCheck::planned(const PlannedGraph& planned) {
  static constexpr char kStep[] = "plan";
  if (!unavailable_.empty()) {
    skip(kStep, absl::UnimplementedError("the imported model was not interpreted"));
    return absl::OkStatus();
  }
  std::vector<Trace> traces, ignored;
  int64_t left = allowance();
  interpreter::Options options = optionsFor(ignored, left);
  options.observe = nullptr;
  const auto observe = [&](int first, int last, const std::vector<Array>& results) {
    const v1::Step& step = planned.plan.steps(first);
    const v1::Workload& workload = planned.plan.workloads(step.workload());
    const std::string place =
        last - first > 1 ? absl::StrCat("the loop of steps ", step.name(), " to ", planned.plan.steps(last - 1).name())
                         : absl::StrCat("workload ", workload.summary(), " in step ", step.name(),
                                        workload.has_slices() ? " (several groups in slices)" : "");
    for (const Array& result : results) {
      Trace trace = traceOf(result);
      trace.node = step.name();
      trace.place = place;
      traces.push_back(std::move(trace));
    }
  };
  absl::StatusOr<std::vector<Array>> outputs = runPlan(*context_, planned, inputs_, options, observe);
  if (!outputs.ok()) {
    if (!isLimit(outputs.status())) {
      return failureStatus(v1::Failure::INTERNAL,
                           absl::StrCat("verification: the plan cannot be run: ", outputs.status().message()));
    }
    skip(kStep, outputs.status());
    return absl::OkStatus();
  }
  return compareOutputs(kStep, *outputs, std::move(traces), nullptr);
}

std::string GraphCheck::outputName(int output) const {
  return output < static_cast<int>(outputs_.size()) ? absl::StrCat("output '", outputs_[output].name(), "'")
                                                    : "the extent of an output or the error of a run";
}

absl::Status GraphCheck::failure(const std::string& step, int output, const std::string& difference,
                                 const Trace* fault) const {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INTERNAL);
  if (fault) failure.set_node(fault->node);
  failure.set_message(absl::StrCat(
      "verification: ", step, " changes what the model computes: ", outputName(output), ", ", difference,
      fault ? "; the first value that was not there before it is that of " : "", fault ? fault->place : ""));
  return failureStatus(failure);
}

absl::Status GraphCheck::compareOutputs(const std::string& step, const std::vector<Array>& found,
                                        std::vector<Trace> traces, mlir::func::FuncOp main) {
  v1::VerifiedStep report = stepNamed(step);
  if (found.size() != expected_.size()) {
    return failureStatus(v1::Failure::INTERNAL, absl::StrCat("verification: after ", step, " the model has ",
                                                             found.size(), " results instead of ", expected_.size()));
  }
  for (size_t output = 0; output < found.size(); ++output) {
    const interpreter::Difference difference = interpreter::compare(expected_[output], found[output]);
    report.set_elements(report.elements() + difference.elements);
    report.set_undecided(report.undecided() + difference.undecided);
    report.set_largest_error(std::max(report.largest_error(), difference.largest_error));
    if (difference.share > report.share()) {
      report.set_share(difference.share);
      report.set_bound(difference.bound);
    }
    if (difference.isWithin()) continue;
    const std::string text = interpreter::describe(difference, expected_[output].storage->element);
    llvm::DenseSet<mlir::Operation*> reached;
    if (main) reached = behind(main, static_cast<int>(output));
    const Trace* fault = nullptr;
    for (const Trace& trace : traces) {
      // The first new value on which the wrong output depends is the likely fault. Zeros resemble each other and prove
      // nothing.
      if (trace.magnitude == 0 || (main && !reached.contains(trace.op)) || isKnown(trace)) continue;
      fault = &trace;
      break;
    }
    return failure(step, static_cast<int>(output), text, fault);
  }
  steps_.push_back(report);
  // Inputs stay known; steps of a plan give no traces of intermediate values.
  if (main) {
    for (const Array& input : inputs_) traces.push_back(traceOf(input));
    known_ = std::move(traces);
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::verification
