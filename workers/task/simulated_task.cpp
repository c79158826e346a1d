#include "workers/task/simulated_task.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/session.h"
#include "compiler/runtime/variants.h"
#include "proto/messages/element_size.h"
#include "proto/messages/failure.h"
#include "proto/support/read_file.h"
#include "proto/support/status_macros.h"
#include "workers/output_names.h"
#include "workers/task/seeded_tensor.h"
#include "workers/task/tensor_check.h"

namespace tessera::worker {
namespace {

using compiler::simulator::SimulatedArtifact;
using compiler::simulator::SimulatedSession;
using google::protobuf::RepeatedPtrField;

// Limit on all inline outputs together, since a result must fit in one message.
constexpr size_t kInlineBytes = 1 << 20;

absl::Status invalidInput(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kResourceExhausted)
    return failureStatus(v1::Failure::OUT_OF_MEMORY, std::string(status.message()));
  return failureStatus(v1::Failure::INVALID_INPUT, std::string(status.message()));
}

// An artifact with a session of the variant that fits the inputs.
struct Loaded {
  std::unique_ptr<SimulatedArtifact> artifact;
  std::unique_ptr<SimulatedSession> session;
  size_t variant = 0;
  const v1::Plan& plan() const { return artifact->variant(variant); }
};

absl::StatusOr<size_t> variantFor(const SimulatedArtifact& artifact, const RepeatedPtrField<v1::TensorValue>& given) {
  const std::vector<v1::TensorSpec> accepted(artifact.plan().inputs().begin(), artifact.plan().inputs().end());
  TESSERA_RETURN_IF_ERROR(checkNames(given, accepted));
  if (artifact.variants() == 1) return 0;
  std::vector<tessera_shape> shapes;
  for (const v1::TensorSpec& input : accepted) {
    const auto value =
        std::ranges::find_if(given, [&](const v1::TensorValue& each) { return each.spec().name() == input.name(); });
    shapes.push_back(value == given.end() ? tessera_shape{nullptr, -1}
                                          : tessera_shape{value->spec().shape().data(), value->spec().shape_size()});
  }
  size_t variant = 0;
  const compiler::RuntimeStatus status =
      compiler::findVariant(artifact.module(), {.inputs = shapes, .dimensions = {}}, &variant);
  if (status.ok()) return variant;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(status.message());
  failure.set_fix("give inputs of one of these shapes, or compile the model for more");
  return failureStatus(failure);
}

absl::StatusOr<Loaded> load(const std::string& path, const RepeatedPtrField<v1::TensorValue>& given) {
  compiler::ArtifactFile file;
  if (compiler::RuntimeStatus status = compiler::ArtifactFile::open(path, &file); !status.ok())
    return failureStatus(v1::Failure::INVALID_INPUT, status.message());
  Loaded loaded;
  absl::StatusOr<std::unique_ptr<SimulatedArtifact>> artifact = SimulatedArtifact::open(std::move(file));
  if (!artifact.ok()) return invalidInput(artifact.status());
  loaded.artifact = *std::move(artifact);
  TESSERA_ASSIGN_OR_RETURN(loaded.variant, variantFor(*loaded.artifact, given));
  absl::StatusOr<std::unique_ptr<SimulatedSession>> session =
      SimulatedSession::create(*loaded.artifact, loaded.variant);
  if (!session.ok()) return invalidInput(session.status());
  loaded.session = *std::move(session);
  return loaded;
}

// The bytes of each input. `seed`: fills inputs without a value; null: only those with a default may be missing.
absl::StatusOr<std::vector<std::string>> inputsOf(const TaskContext& task, const v1::Plan& plan,
                                                  const RepeatedPtrField<v1::TensorValue>& given,
                                                  const uint64_t* seed) {
  std::vector<std::string> inputs;
  for (const v1::TensorSpec& spec : plan.inputs()) {
    int64_t bytes = elementBytes(spec.dtype());
    for (const int64_t extent : spec.shape()) bytes *= extent;
    std::string& input = inputs.emplace_back();
    const v1::TensorValue* value = nullptr;
    for (const auto* values : {&plan.default_inputs(), &plan.fixed_inputs(), &given}) {
      for (const v1::TensorValue& each : *values)
        if (each.spec().name() == spec.name() && each.value_case() != v1::TensorValue::VALUE_NOT_SET) value = &each;
    }
    if (value == nullptr && seed != nullptr) {
      input.resize(static_cast<size_t>(bytes));
      fillSeeded(spec.dtype(), *seed + inputs.size() - 1, input.data(), bytes);
      continue;
    }
    if (value == nullptr)
      return tensorFailure(spec.name(), absl::StrCat("input '", spec.name(), "' is missing"), "no value", "a value");
    TESSERA_RETURN_IF_ERROR(checkTensor(*value, spec, bytes));
    if (value->has_blob()) {
      TESSERA_ASSIGN_OR_RETURN(const std::string path, task.input(value->blob().sha256()));
      TESSERA_ASSIGN_OR_RETURN(input, readFile(path));
    } else {
      input = value->data();
    }
  }
  return inputs;
}

absl::StatusOr<std::vector<std::string>> run(const TaskContext& task, Loaded& loaded,
                                             const RepeatedPtrField<v1::TensorValue>& given, const uint64_t* seed) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> inputs, inputsOf(task, loaded.plan(), given, seed));
  const std::vector<std::string_view> views(inputs.begin(), inputs.end());
  std::vector<std::string> outputs;
  if (absl::Status status = loaded.session->run(views, outputs); !status.ok()) return invalidInput(status);
  return outputs;
}

}  // namespace

bool isSimulated(const std::string& path) {
  compiler::ArtifactFile file;
  return compiler::ArtifactFile::open(path, &file).ok() && SimulatedArtifact::isOne(file);
}

absl::Status checkNoDevice(const std::string& path) {
  compiler::ArtifactFile file;
  if (!compiler::ArtifactFile::open(path, &file).ok() || file.find(compiler::kLaunchesEntry) == nullptr)
    return absl::OkStatus();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
  failure.set_message("the artifact is a program for OpenCL devices, and workers' sandboxes have no device");
  failure.set_fix("`tessera run FILE` runs it on the first OpenCL device of its machine");
  return failureStatus(failure);
}

absl::StatusOr<v1::TaskResult> executeSimulated(const TaskContext& task, const std::string& path,
                                                const v1::ExecuteSpec& spec) {
  TESSERA_ASSIGN_OR_RETURN(Loaded loaded, load(path, spec.inputs()));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, run(task, loaded, spec.inputs(), nullptr));
  absl::StatusOr<v1::SimulatedRun> cost = loaded.session->cost();
  if (!cost.ok()) return invalidInput(cost.status());
  v1::TaskResult result;
  v1::ExecuteResult& execute = *result.mutable_execute();
  execute.set_latency_ms(cost->seconds() * 1e3);
  *execute.mutable_simulated() = *std::move(cost);
  size_t inline_bytes = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    v1::TensorValue& value = *execute.add_outputs();
    *value.mutable_spec() = loaded.session->outputSpecs()[i];
    if (inline_bytes + outputs[i].size() <= kInlineBytes) {
      inline_bytes += outputs[i].size();
      value.set_data(outputs[i]);
      continue;
    }
    const std::string name = outputFileName(static_cast<int>(i));  // the worker sets the blob
    TESSERA_ASSIGN_OR_RETURN(const FileDescriptor file, task.createOutput(name));
    TESSERA_RETURN_IF_ERROR(writeAll(file.get(), outputs[i], name));
    result.add_files()->set_name(name);
  }
  return result;
}

absl::StatusOr<v1::TaskResult> profileSimulated(const TaskContext& task, const std::string& path,
                                                const v1::ProfileSpec& spec) {
  TESSERA_ASSIGN_OR_RETURN(Loaded loaded, load(path, spec.inputs()));
  const v1::Plan& plan = loaded.plan();
  const bool computes_trips = std::ranges::any_of(plan.loops(), [](const v1::StepLoop& loop) {
    return loop.has_trip_count() || loop.has_initial_condition() || loop.has_condition();
  });
  if (computes_trips) {
    const uint64_t seed = spec.seed();
    TESSERA_RETURN_IF_ERROR(run(task, loaded, spec.inputs(), &seed).status());
  }
  absl::StatusOr<v1::SimulatedRun> cost = loaded.session->cost();
  if (!cost.ok()) return invalidInput(cost.status());
  v1::TaskResult result;
  v1::ProfileResult& profile = *result.mutable_profile();
  profile.mutable_host()->set_cpu_model(loaded.artifact->plan().target().name());
  profile.add_latency_ms(cost->seconds() * 1e3);
  for (int s = 0; s < cost->steps_size(); ++s) {
    const v1::SimulatedRun::Step& step = cost->steps(s);
    const v1::Workload& workload = loaded.artifact->plan().workloads(plan.steps(s).workload());
    v1::ProfileResult::KernelTime& kernel = *profile.add_kernels();
    kernel.set_name(step.name());
    kernel.set_symbol(step.symbol());
    kernel.set_flops(workload.flops() * step.runs());
    kernel.set_median_ms(cost->cycles() > 0 ? step.cycles() / cost->cycles() * cost->seconds() * 1e3 : 0);
    kernel.add_times_ms(kernel.median_ms());
    kernel.set_workload_hash(workload.hash());
    kernel.set_summary(workload.summary());
    if (workload.has_schedule()) *kernel.mutable_schedule() = workload.schedule();
  }
  *profile.mutable_simulated() = *std::move(cost);
  return result;
}

}  // namespace tessera::worker
