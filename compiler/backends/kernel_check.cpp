#include "compiler/backends/kernel_check.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/bufferize.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/interpreter/compare.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/random_array.h"
#include "compiler/ir/workload.h"
#include "compiler/runtime/guarded_memory.h"
#include "compiler/target/host.h"
#include "compiler/verification/limit_status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::verification {
namespace {

using interpreter::Array;

constexpr int64_t kBudget = 4'000'000'000;     // operations of one interpretation
constexpr int64_t kPositiveToo = 200'000'000;  // cheaper workloads are tried on a second set of inputs

using End = GuardedMemory::End;

/// Memory of one operand as a caller may pass it: aligned to its element only, so that at the back no slack separates
/// it from the inaccessible page.
bool allocate(const Array& array, GuardedMemory& memory) {
  const int64_t element = interpreter::elementBytes(array.storage->element);
  return memory.allocate(array.elements() * element, element);
}

/// One set of inputs and the workload's results for it.
struct Trial {
  std::vector<Array> arguments, results;
};

class KernelCheck {
 public:
  KernelCheck(const v1::BuildUnit& unit, const v1::BuiltObject& built, uint64_t seed)
      : unit_(unit), built_(&built), seed_(seed) {}
  KernelCheck(const v1::BuildUnit& unit, const RunKernel& run, uint64_t seed) : unit_(unit), run_(&run), seed_(seed) {}

  absl::Status run();
  std::vector<v1::VerifiedStep> steps() const { return steps_; }

 private:
  absl::Status interpretWorkload(mlir::func::FuncOp func);
  absl::StatusOr<Trial> attempt(mlir::func::FuncOp func, interpreter::InputRange range, int64_t& left) const;
  absl::Status checkNormalized(mlir::func::FuncOp func);
  absl::Status checkBuffers(mlir::func::FuncOp func);
  absl::Status checkNative();
  absl::Status checkRuns();
  /// Runs a built unit. Returns a description of the results' differences, the worst first; empty if all are within
  /// bounds.
  absl::StatusOr<std::string> differenceOf(const v1::BuiltObject& built, v1::VerifiedStep* report) const;
  std::string blame() const;
  std::string compareAll(const Trial& trial, const std::vector<Array>& found, v1::VerifiedStep* report) const;
  v1::VerifiedStep stepNamed(const std::string& name) const;
  void skip(const std::string& step, const std::string& why);
  absl::Status failed(const std::string& step, const std::string& text) const;

  const v1::BuildUnit& unit_;
  const v1::BuiltObject* const built_ = nullptr;  ///< null: the kernel is what `run_` runs
  const RunKernel* const run_ = nullptr;
  uint64_t seed_;
  int over_ = -1;  ///< the argument that the result may overwrite
  std::vector<Trial> trials_;
  std::vector<v1::VerifiedStep> steps_;
};

std::string limitText(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted
             ? absl::StrCat("interpreting it takes more than ", kBudget, " operations")
             : std::string(status.message());
}

v1::VerifiedStep KernelCheck::stepNamed(const std::string& name) const {
  v1::VerifiedStep step;
  step.set_step(name);
  step.set_place(unit_.symbol());
  return step;
}

void KernelCheck::skip(const std::string& step, const std::string& why) {
  steps_.push_back(stepNamed(step));
  steps_.back().set_skipped(why);
}

absl::Status KernelCheck::failed(const std::string& step, const std::string& text) const {
  return failureStatus(v1::Failure::INTERNAL,
                       absl::StrCat("verification: ", step, " of workload ", unit_.symbol(), ": ", text));
}

std::string KernelCheck::compareAll(const Trial& trial, const std::vector<Array>& found,
                                    v1::VerifiedStep* report) const {
  std::string text;
  for (size_t r = 0; r < trial.results.size(); ++r) {
    const interpreter::Difference difference = interpreter::compare(trial.results[r], found[r]);
    if (report) {
      report->set_elements(report->elements() + difference.elements);
      report->set_undecided(report->undecided() + difference.undecided);
      report->set_largest_error(std::max(report->largest_error(), difference.largest_error));
      if (difference.share > report->share()) {
        report->set_share(difference.share);
        report->set_bound(difference.bound);
      }
    }
    if (difference.isWithin()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", "result ", r, ", ",
                    interpreter::describe(difference, trial.results[r].storage->element));
  }
  return text;
}

absl::StatusOr<Trial> KernelCheck::attempt(mlir::func::FuncOp func, interpreter::InputRange range,
                                           int64_t& left) const {
  Trial trial;
  for (mlir::Type type : func.getArgumentTypes()) {
    ++range.seed;
    auto tensor = llvm::cast<mlir::RankedTensorType>(type);
    trial.arguments.push_back(
        interpreter::randomArray(interpreter::elementOf(tensor.getElementType()), tensor.getShape(), range));
  }
  interpreter::Options options;
  options.budget = &left;
  TESSERA_ASSIGN_OR_RETURN(trial.results, interpreter::interpret(func, trial.arguments, options));
  return trial;
}

absl::Status KernelCheck::interpretWorkload(mlir::func::FuncOp func) {
  if (interpreter::operationsOf(func) > kBudget) return absl::ResourceExhaustedError("");
  absl::Status status;
  for (const interpreter::InputRange& range : interpreter::inputRanges(seed_ * 1000)) {
    int64_t left = kBudget;
    absl::StatusOr<Trial> trial = attempt(func, range, left);
    status = trial.status();
    // An input was an index out of bounds: tries the next, smaller range.
    if (status.code() == absl::StatusCode::kOutOfRange) continue;
    if (!status.ok()) return status;
    trials_.push_back(*std::move(trial));
    if (kBudget - left > kPositiveToo) return status;
    // Logarithms and roots of inputs in [-1, 1] are NaN half of the time: run once more with positive inputs.
    interpreter::InputRange positive = range;
    positive.low = 0.0625;
    positive.seed += 500;
    trial = attempt(func, positive, left);
    if (trial.ok()) trials_.push_back(*std::move(trial));
    return absl::OkStatus();
  }
  return status;
}

absl::Status KernelCheck::checkNormalized(mlir::func::FuncOp func) {
  v1::VerifiedStep step = stepNamed("normalize");
  for (const Trial& trial : trials_) {
    int64_t left = 2 * kBudget;
    interpreter::Options options;
    options.budget = &left;
    absl::StatusOr<std::vector<Array>> found = interpreter::interpret(func, trial.arguments, options);
    if (!found.ok()) {
      if (!isLimit(found.status())) return failed("normalize", std::string(found.status().message()));
      skip("normalize", limitText(found.status()));
      return absl::OkStatus();
    }
    const std::string text = compareAll(trial, *found, &step);
    if (!text.empty()) return failed("normalize", text);
  }
  steps_.push_back(step);
  return absl::OkStatus();
}

absl::Status KernelCheck::checkBuffers(mlir::func::FuncOp func) {
  v1::VerifiedStep step = stepNamed("bufferize");
  for (const Trial& trial : trials_) {
    int64_t left = 2 * kBudget;
    interpreter::Options options;
    options.budget = &left;
    // Buffers are written, so each trial needs its own.
    std::vector<Array> buffers;
    for (const Array& argument : trial.arguments) buffers.push_back(interpreter::ownedDense(argument));
    for (const Array& result : trial.results) {
      buffers.push_back(interpreter::makeArray(result.storage->element, result.shape, /*poisoned=*/true));
    }
    absl::StatusOr<std::vector<Array>> done = interpreter::interpret(func, buffers, options);
    if (!done.ok()) {
      if (!isLimit(done.status())) return failed("bufferize", std::string(done.status().message()));
      skip("bufferize", limitText(done.status()));
      return absl::OkStatus();
    }
    const size_t count = trial.arguments.size();
    const std::string text = compareAll(trial, {buffers.begin() + static_cast<int64_t>(count), buffers.end()}, &step);
    if (!text.empty()) return failed("bufferize", text);
    for (size_t i = 0; i < count; ++i) {
      // Bufferization must not write in place over an argument.
      if (!interpreter::compare(trial.arguments[i], buffers[i]).isWithin()) {
        return failed("bufferize", absl::StrCat("argument ", i, " was written to"));
      }
    }
  }
  steps_.push_back(step);
  return absl::OkStatus();
}

absl::StatusOr<std::string> KernelCheck::differenceOf(const v1::BuiltObject& built, v1::VerifiedStep* report) const {
  TESSERA_ASSIGN_OR_RETURN(auto loaded, codegen::LoadedUnit::load(built, unit_.code()));
  for (const Trial& trial : trials_) {
    const size_t arguments = trial.arguments.size();
    std::vector<GuardedMemory> operands(arguments + trial.results.size());
    std::vector<std::string> contents;
    for (const Array& argument : trial.arguments) contents.push_back(interpreter::toBytes(argument));
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!allocate(i < arguments ? trial.arguments[i] : trial.results[i - arguments], operands[i]))
        return absl::ResourceExhaustedError("no guarded memory");
    }
    // Whole with operands at the back, in three pieces with operands at the front: two runs cover both.
    for (const auto& [pieces, end] : {std::pair(1, End::kBack), {3, End::kFront}}) {
      for (size_t i = 0; i < operands.size(); ++i) {
        operands[i].setWritable(true);
        operands[i].place(end);
        if (i >= arguments) continue;
        std::memcpy(operands[i].data(), contents[i].data(), contents[i].size());
        // A kernel that writes to an input faults.
        operands[i].setWritable(false);
      }
      std::string wrong = loaded->runGuarded(operands, pieces, end);
      if (!wrong.empty()) return wrong;
      std::vector<Array> found;
      for (size_t r = 0; r < trial.results.size(); ++r) {
        const Array& expected = trial.results[r];
        const GuardedMemory& operand = operands[arguments + r];
        found.push_back(interpreter::fromBytes(expected.storage->element, expected.shape,
                                               {reinterpret_cast<const char*>(operand.data()), operand.size()}));
      }
      const std::string text = compareAll(trial, found, report);
      if (!text.empty()) return absl::StrCat(text, ", grid in ", pieces, pieces == 1 ? " piece" : " pieces");
    }
    if (over_ < 0) continue;
    // Runs once more with the result in the memory of the argument that it may overwrite.
    std::vector<void*> pointers;
    for (std::string& content : contents) pointers.push_back(content.data());
    pointers.push_back(pointers[over_]);
    loaded->run(pointers, 1);
    const Array& expected = trial.results[0];
    const std::string text =
        compareAll(trial, {interpreter::fromBytes(expected.storage->element, expected.shape, contents[over_])}, report);
    if (!text.empty()) return absl::StrCat(text, ", written over argument ", over_);
  }
  return std::string();
}

/// Narrows down the faulty part of code generation by compiling the same workload in simpler forms.
std::string KernelCheck::blame() const {
  std::string text;
  for (const auto& [request, name] : {std::pair(ScheduleRequest{.row_regions = false}, "without slices"),
                                      std::pair(ScheduleRequest{.scalar = true}, "on plain loops")}) {
    v1::BuildUnit simpler = unit_;
    absl::StatusOr<v1::Schedule> schedule = defaultSchedule(simpler, request);
    if (!schedule.ok()) continue;
    *simpler.mutable_schedule() = *std::move(schedule);
    absl::StatusOr<v1::BuiltObject> built = buildObject(simpler);
    if (!built.ok()) continue;
    absl::StatusOr<std::string> difference = differenceOf(*built, nullptr);
    if (!difference.ok()) continue;
    absl::StrAppend(&text, "; ", name, " it is ", difference->empty() ? "right" : "wrong");
  }
  return text;
}

absl::Status KernelCheck::checkNative() {
  const std::vector<v1::Failure> problems = hostProblems(unit_.code(), hostInfo());
  if (!problems.empty()) {
    skip("kernel", problems[0].message());
    return absl::OkStatus();
  }
  v1::VerifiedStep step = stepNamed("kernel");
  absl::StatusOr<std::string> difference = differenceOf(*built_, &step);
  if (!difference.ok()) return failed("kernel", std::string(difference.status().message()));
  if (!difference->empty()) return failed("kernel", absl::StrCat(*difference, blame()));
  steps_.push_back(step);
  return absl::OkStatus();
}

absl::Status KernelCheck::checkRuns() {
  v1::VerifiedStep step = stepNamed("kernel");
  for (const Trial& trial : trials_) {
    std::vector<std::string> arguments;
    std::vector<int64_t> sizes;
    for (const Array& argument : trial.arguments) arguments.push_back(interpreter::toBytes(argument));
    for (const Array& result : trial.results)
      sizes.push_back(result.elements() * interpreter::elementBytes(result.storage->element));
    const absl::StatusOr<std::vector<std::string>> bytes = (*run_)(arguments, sizes);
    if (!bytes.ok()) return failed("kernel", std::string(bytes.status().message()));
    std::vector<Array> found;
    for (size_t r = 0; r < trial.results.size(); ++r)
      found.push_back(interpreter::fromBytes(trial.results[r].storage->element, trial.results[r].shape, bytes->at(r)));
    const std::string text = compareAll(trial, found, &step);
    if (!text.empty()) return failed("kernel", text);
  }
  steps_.push_back(step);
  return absl::OkStatus();
}

absl::Status KernelCheck::run() {
  mlir::DialectRegistry registry;
  codegen::registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  TESSERA_ASSIGN_OR_RETURN(auto module, codegen::parseWorkload(context, unit_.ir()));
  mlir::func::FuncOp func = *module->getOps<mlir::func::FuncOp>().begin();
  if (auto over = func.getResultAttrOfType<mlir::IntegerAttr>(0, kMayAlias)) over_ = static_cast<int>(over.getInt());
  if (absl::Status status = interpretWorkload(func); !status.ok()) {
    const std::string why = status.code() == absl::StatusCode::kOutOfRange
                                ? absl::StrCat("no inputs were found that it is defined for: ", status.message())
                                : limitText(status);
    for (const char* step : {"normalize", "bufferize", "kernel"}) skip(step, why);
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(codegen::normalizeTensors(func));
  TESSERA_RETURN_IF_ERROR(checkNormalized(func));
  TESSERA_RETURN_IF_ERROR(codegen::bufferizeWorkload(func));
  TESSERA_RETURN_IF_ERROR(checkBuffers(func));
  return built_ != nullptr ? checkNative() : checkRuns();
}

}  // namespace

absl::StatusOr<std::vector<v1::VerifiedStep>> checkKernel(const v1::BuildUnit& unit, const v1::BuiltObject& built,
                                                          uint64_t seed) {
  KernelCheck check(unit, built, seed);
  TESSERA_RETURN_IF_ERROR(check.run());
  return check.steps();
}

absl::StatusOr<std::vector<v1::VerifiedStep>> checkKernel(const v1::BuildUnit& unit, const RunKernel& run,
                                                          uint64_t seed) {
  KernelCheck check(unit, run, seed);
  TESSERA_RETURN_IF_ERROR(check.run());
  return check.steps();
}

}  // namespace tessera::compiler::verification
