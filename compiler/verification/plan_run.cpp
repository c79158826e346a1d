#include "compiler/verification/plan_run.h"

#include "absl/strings/str_cat.h"
#include "compiler/verification/loop_state.h"
#include "compiler/verification/model_run.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::verification {
namespace {

using interpreter::Array;

absl::Status inStep(const v1::Step& step, const absl::Status& status) {
  // The innermost step has been named already.
  if (status.message().find("; in step ") != std::string::npos) return status;
  return {status.code(), absl::StrCat(status.message(), "; in step ", step.name())};
}

/// The state of one run of a plan.
class PlanRun {
 public:
  PlanRun(mlir::MLIRContext& context, const PlannedGraph& planned, const std::vector<Array>& inputs,
          const std::vector<Array>& prepared, const interpreter::Options& options, const StepObserver& observer)
      : context_(context),
        plan_(planned.plan),
        options_(options),
        options_of_loops_(options),
        observer_(observer),
        memory_(planned, inputs, prepared),
        places_(planned.plan) {
    options_of_loops_.cache = nullptr;  // each iteration has different values
  }

  absl::StatusOr<std::vector<Array>> run();

 private:
  absl::Status parse();
  /// Runs steps [first, last); the loops from position `loop` on run as loops.
  absl::Status runSteps(int first, int last, int loop, bool in_loop);
  absl::Status runLoop(int number);
  absl::Status runStep(const v1::Step& step, bool in_loop, std::vector<Array>& results);
  absl::Status charge(const std::vector<Array>& moved);
  absl::Status observeLoop(const v1::StepLoop& loop);
  absl::StatusOr<Array> readAs(int buffer, const v1::TensorSpec& spec);
  absl::StatusOr<std::vector<Array>> outputs();

  mlir::MLIRContext& context_;
  const v1::Plan& plan_;
  const interpreter::Options& options_;
  interpreter::Options options_of_loops_;
  const StepObserver& observer_;
  PlanMemory memory_;
  BufferPlaces places_;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules_;  // of the workloads
};

absl::Status PlanRun::parse() {
  for (const v1::Workload& workload : plan_.workloads()) {
    modules_.push_back(mlir::parseSourceString<mlir::ModuleOp>(workload.ir(), mlir::ParserConfig(&context_)));
    if (!modules_.back()) return absl::InternalError("a workload does not parse: " + workload.summary());
  }
  return checkLoops(plan_);
}

/// The steps of a loop may only move elements, and may run any number of times, so moved elements count.
absl::Status PlanRun::charge(const std::vector<Array>& moved) {
  if (!options_.budget) return absl::OkStatus();
  *options_.budget -= 1;
  for (const Array& array : moved) *options_.budget -= array.elements();
  return *options_.budget < 0 ? absl::ResourceExhaustedError("too many operations") : absl::OkStatus();
}

absl::Status PlanRun::runStep(const v1::Step& step, bool in_loop, std::vector<Array>& results) {
  mlir::func::FuncOp func = *modules_[step.workload()]->getOps<mlir::func::FuncOp>().begin();
  const int count = static_cast<int>(func.getNumArguments());
  if (count + static_cast<int>(func.getNumResults()) != step.operands_size())
    return absl::InternalError("a step has other operands than its workload");
  std::vector<Array> arguments;
  for (int i = 0; i < count; ++i) {
    auto type = llvm::cast<mlir::RankedTensorType>(func.getArgumentTypes()[i]);
    TESSERA_ASSIGN_OR_RETURN(const Place place, places_.of(step.operands(i)));
    TESSERA_ASSIGN_OR_RETURN(Array argument,
                             memory_.read(place, interpreter::elementOf(type.getElementType()), type.getShape()));
    arguments.push_back(std::move(argument));
  }
  if (in_loop) {
    TESSERA_RETURN_IF_ERROR(charge(arguments));
  }
  TESSERA_ASSIGN_OR_RETURN(results,
                           interpreter::interpret(func, std::move(arguments), in_loop ? options_of_loops_ : options_));
  for (size_t r = 0; r < results.size(); ++r) {
    TESSERA_ASSIGN_OR_RETURN(const Place place, places_.of(step.operands(count + static_cast<int>(r))));
    TESSERA_RETURN_IF_ERROR(memory_.write(place, results[r]));
  }
  return absl::OkStatus();
}

absl::Status PlanRun::runSteps(int first, int last, int loop, bool in_loop) {
  for (int at = first; at < last;) {
    if (loop < plan_.loops_size() && plan_.loops(loop).first_step() == at) {
      TESSERA_RETURN_IF_ERROR(runLoop(loop));
      const v1::StepLoop& ended = plan_.loops(loop);
      at = ended.last_step();
      // Skips nested loops, which have run within this one.
      while (loop < plan_.loops_size() && plan_.loops(loop).first_step() < at) ++loop;
      if (in_loop || !observer_) continue;
      TESSERA_RETURN_IF_ERROR(observeLoop(ended));
      continue;
    }
    const v1::Step& step = plan_.steps(at);
    std::vector<Array> results;
    if (absl::Status status = runStep(step, in_loop, results); !status.ok()) return inStep(step, status);
    if (observer_ && !in_loop) observer_(at, at + 1, results);
    ++at;
  }
  return absl::OkStatus();
}

absl::Status PlanRun::runLoop(int number) {
  const v1::StepLoop& loop = plan_.loops(number);
  const auto placed = [&](const absl::Status& status) {
    return status.ok() ? status : inStep(plan_.steps(loop.first_step()), status);
  };
  LoopState state(plan_, number, places_, memory_);
  if (absl::Status status = state.enter(); !status.ok()) return placed(status);
  while (state.goesOn()) {
    if (absl::Status status = charge({}); !status.ok()) return placed(status);
    if (absl::Status status = state.beginIteration(); !status.ok()) return placed(status);
    if (absl::Status status = runSteps(loop.first_step(), loop.last_step(), number + 1, true); !status.ok())
      return status;
    if (absl::Status status = state.endIteration(); !status.ok()) return placed(status);
  }
  return placed(state.leave());
}

absl::StatusOr<Array> PlanRun::readAs(int buffer, const v1::TensorSpec& spec) {
  TESSERA_ASSIGN_OR_RETURN(const Place place, places_.of(buffer));
  return memory_.read(place, elementOf(spec), {spec.shape().data(), static_cast<size_t>(spec.shape_size())});
}

absl::Status PlanRun::observeLoop(const v1::StepLoop& loop) {
  std::vector<int> buffers;
  for (const v1::StepLoop::Carried& carried : loop.carried()) buffers.push_back(carried.result());
  for (const v1::StepLoop::Scan& scan : loop.scans()) {
    if (scan.written()) buffers.push_back(scan.whole());
  }
  std::vector<Array> results;
  for (int buffer : buffers) {
    TESSERA_ASSIGN_OR_RETURN(Array result, readAs(buffer, plan_.buffers(buffer).spec()));
    results.push_back(std::move(result));
  }
  observer_(loop.first_step(), loop.last_step(), results);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Array>> PlanRun::outputs() {
  std::vector<Array> outputs;
  for (int output = 0; output < plan_.outputs_size(); ++output) {
    const v1::TensorSpec& spec = plan_.outputs(output);
    const llvm::ArrayRef<int64_t> shape(spec.shape().data(), static_cast<size_t>(spec.shape_size()));
    TESSERA_ASSIGN_OR_RETURN(Array value, memory_.read(memory_.placeOfOutput(output), elementOf(spec), shape));
    outputs.push_back(std::move(value));
  }
  std::vector<int> numbers;
  for (const v1::RuntimeExtent& extent : plan_.runtime_extents()) numbers.push_back(extent.buffer());
  if (!plan_.run_faults().messages().empty()) numbers.push_back(plan_.run_faults().buffer());
  for (const int buffer : numbers) {
    v1::TensorSpec spec;
    spec.set_dtype(v1::DATA_TYPE_I64);
    TESSERA_ASSIGN_OR_RETURN(Array value, readAs(buffer, spec));
    outputs.push_back(std::move(value));
  }
  return outputs;
}

absl::StatusOr<std::vector<Array>> PlanRun::run() {
  TESSERA_RETURN_IF_ERROR(parse());
  TESSERA_RETURN_IF_ERROR(runSteps(0, plan_.steps_size(), 0, false));
  return outputs();
}

}  // namespace

absl::StatusOr<std::vector<Array>> runPlan(mlir::MLIRContext& context, const PlannedGraph& planned,
                                           const std::vector<Array>& inputs, const interpreter::Options& options,
                                           const StepObserver& observer) {
  std::vector<Array> prepared;
  for (const PlannedGraph::PreparedWeight& weight : planned.prepared) {
    TESSERA_ASSIGN_OR_RETURN(std::vector<Array> value,
                             runPlan(context, {.plan = weight.plan, .weights = weight.weights}, {}, options, nullptr));
    prepared.push_back(std::move(value.front()));
  }
  return PlanRun(context, planned, inputs, prepared, options, observer).run();
}

}  // namespace tessera::compiler::verification
