#include "clients/cli/sandboxed_run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/latency.h"
#include "clients/cli/local_service.h"
#include "clients/cli/manifest_variant.h"
#include "clients/cli/output.h"
#include "clients/cli/tensor_flags.h"
#include "proto/messages/failure.h"
#include "proto/messages/sandbox_measures.h"
#include "proto/support/printable.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "workers/standalone_sandbox.h"

namespace tessera::client {
namespace {

using worker::StandaloneSandbox;

/// Inputs in a task's form: named in the spec, with their digests in `files`.
struct TaskInputs {
  google::protobuf::RepeatedPtrField<v1::TensorValue> values;
  std::map<std::string, std::string> files;

  void add(Tensor tensor) {
    v1::TensorValue& value = *values.Add();
    *value.mutable_spec() = std::move(tensor.spec);
    const std::string sha256 = sha256Hex(tensor.bytes);
    value.mutable_blob()->set_sha256(sha256);
    value.mutable_blob()->set_size_bytes(static_cast<int64_t>(tensor.bytes.size()));
    files[sha256] = std::move(tensor.bytes);
  }
};

/// Bytes of a tensor that the manifest describes. The manifest is untrusted, so the size is limited to `most`.
absl::StatusOr<int64_t> bytesOf(const v1::TensorSpec& spec, int64_t most) {
  int64_t bytes = std::max<int64_t>(1, dtypeBytes(spec.dtype()));
  for (const int64_t extent : spec.shape()) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return failureStatus(v1::Failure::INVALID_INPUT,
                           absl::StrCat("the artifact describes an input with an extent of ", extent));
    }
  }
  if (bytes <= most) return bytes;
  return failureStatus(v1::Failure::INVALID_INPUT,
                       absl::StrCat("the artifact describes inputs of more than the memory limit: ", bytes,
                                    " bytes are asked for, ", most, " are left"));
}

/// The capacity of each range, by the name of the input that holds the run's size.
using RangeCapacities = std::map<std::string, int64_t>;

RangeCapacities roomsOf(const v1::Manifest::Variant& variant) {
  RangeCapacities rooms;
  for (const v1::DimensionBinding& dimension : variant.dimensions())
    if (dimension.size() < 0) rooms[dimension.name()] = -dimension.size();
  return rooms;
}

/// Adds the inputs that hold the sizes of ranges, if --dim states a smaller size than the capacity and no file gives
/// the input. Other inputs have the variant's full size; values beyond the run's size do not affect the result.
absl::Status addCounts(const RangeCapacities& rooms, const v1::Specialization& choice,
                       const std::map<std::string, Tensor>& given, TaskInputs& inputs) {
  for (const v1::DimensionBinding& wanted : choice.dimensions()) {
    const auto room = rooms.find(wanted.name());
    if (room == rooms.end()) continue;
    Tensor count;
    count.spec.set_name(wanted.name());
    count.spec.set_dtype(v1::DATA_TYPE_I64);
    const int64_t size = wanted.size();
    count.bytes.assign(reinterpret_cast<const char*>(&size), sizeof(size));
    const auto known = given.find(wanted.name());
    if (known == given.end()) {
      if (size != room->second) inputs.add(std::move(count));
    } else if (known->second.bytes != count.bytes) {
      v1::Failure failure;
      failure.set_reason(v1::Failure::INVALID_INPUT);
      failure.set_attribute(wanted.name());
      failure.set_message(absl::StrCat("input '", wanted.name(), "' contradicts --dim"));
      failure.set_accepted(absl::StrCat(size));
      failure.set_fix("leave one of them out");
      return failureStatus(failure);
    }
  }
  return absl::OkStatus();
}

/// Adds inputs without a file: sizes from --dim and values for --random. The task itself supplies fixed inputs and full
/// sizes of ranges.
absl::Status addMissing(const v1::Manifest& manifest, const RunInputs& from, const std::map<std::string, Tensor>& given,
                        int64_t memory_bytes, TaskInputs& inputs) {
  TESSERA_ASSIGN_OR_RETURN(auto choice, from.shapes.choice());
  for (const auto& [name, tensor] : given) {
    v1::InputShape& shape = *choice.add_input_shapes();
    shape.set_name(name);
    *shape.mutable_shape() = tensor.spec.shape();
  }
  const auto* specs = &manifest.inputs();
  std::map<std::string, int> known;
  for (const v1::TensorValue& fixed : manifest.fixed_inputs()) known[fixed.spec().name()] = 1;
  for (const v1::TensorValue& value : manifest.default_inputs()) known[value.spec().name()] = 1;
  RangeCapacities rooms;
  if (manifest.variants_size() > 0) {
    TESSERA_ASSIGN_OR_RETURN(const auto variant, chosenVariant(manifest, choice));
    specs = &variant->inputs();
    rooms = roomsOf(*variant);
  }
  TESSERA_RETURN_IF_ERROR(addCounts(rooms, choice, given, inputs));
  for (const auto& [name, room] : rooms) known[name] = 1;
  if (!from.random) return absl::OkStatus();
  int64_t left = memory_bytes;
  for (int i = 0; i < specs->size(); ++i) {
    const v1::TensorSpec& spec = specs->Get(i);
    if (!given.contains(spec.name()) && !known.contains(spec.name())) {
      TESSERA_ASSIGN_OR_RETURN(const auto bytes, bytesOf(spec, left));
      left -= bytes;
      inputs.add(seededTensor(spec, from.seed + static_cast<uint64_t>(i)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TaskInputs> inputsOf(const SandboxedRun& run, int64_t memory_bytes) {
  TESSERA_ASSIGN_OR_RETURN(auto given, readInputs(run.inputs.files));
  TaskInputs inputs;
  if (run.inputs.random || !run.inputs.shapes.dimensions.empty()) {
    TESSERA_ASSIGN_OR_RETURN(auto manifest, readManifest(run.artifact));
    if (absl::Status status = addMissing(manifest, run.inputs, given, memory_bytes, inputs); !status.ok())
      return status;
  }
  for (auto& [name, tensor] : given) inputs.add(std::move(tensor));
  return inputs;
}

template <typename Spec>
void describe(const SandboxedRun& run, const v1::Digest& artifact, const TaskInputs& inputs, Spec& spec) {
  spec.set_artifact_id(artifact.sha256());
  spec.set_threads(run.threads);
  *spec.mutable_inputs() = inputs.values;
}

/// Results of the run, and of timed runs if there are any.
struct Answer {
  v1::ExecuteResult execute;
  v1::ProfileResult profile;
};

absl::StatusOr<v1::TaskResult> succeeded(absl::StatusOr<v1::TaskResult> result) {
  if (result.ok() && result->has_failure()) return failureStatus(result->failure());
  return result;
}

absl::StatusOr<Answer> answerOf(StandaloneSandbox& sandbox, const SandboxedRun& run, const TaskInputs& inputs,
                                const v1::Digest& artifact, int64_t timeout_us, worker::Cancellation& cancellation) {
  Answer answer;
  v1::TaskSpec task;
  task.set_kind(v1::EXECUTE);
  task.set_run_timeout_us(timeout_us);
  describe(run, artifact, inputs, *task.mutable_execute());
  TESSERA_ASSIGN_OR_RETURN(auto once, succeeded(sandbox.run(task, inputs.files, cancellation)));
  answer.execute = std::move(*once.mutable_execute());
  if (run.repeat == 1 && run.warmup == 0 && !run.steps) return answer;
  task.set_kind(v1::PROFILE);
  describe(run, artifact, inputs, *task.mutable_profile());
  task.mutable_profile()->set_repeat(run.repeat);
  task.mutable_profile()->set_warmup(run.warmup);
  TESSERA_ASSIGN_OR_RETURN(auto timed, succeeded(sandbox.run(task, inputs.files, cancellation)));
  answer.profile = std::move(*timed.mutable_profile());
  return answer;
}

absl::Status writeOutputs(OutputFolder& folder, const v1::ExecuteResult& result) {
  for (const v1::TensorValue& output : result.outputs()) {
    TESSERA_RETURN_IF_ERROR(folder.write(output.spec(), output.data()));
  }
  return absl::OkStatus();
}

std::string measuresJson(const worker::Measures& measures) {
  return absl::StrCat(
      "[", absl::StrJoin(measures, ",", [](std::string* out, const auto& each) { *out += toJson(each); }), "]");
}

std::string stepsJson(const v1::ProfileResult& profile) {
  return absl::StrCat(
      "[",
      absl::StrJoin(profile.kernels(), ",",
                    [](std::string* out, const auto& kernel) {
                      absl::StrAppend(
                          out, "{\"name\":", jsonString(kernel.name()), ",\"symbol\":", jsonString(kernel.symbol()),
                          absl::StrFormat(",\"median_ms\":%.6f,\"flops\":%d}", kernel.median_ms(), kernel.flops()));
                    }),
      "]");
}

std::string stepTable(const v1::ProfileResult& profile) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& kernel : profile.kernels()) {
    const double gflops = kernel.median_ms() > 0 ? static_cast<double>(kernel.flops()) / kernel.median_ms() / 1e6 : 0;
    rows.push_back(
        {millisecondsText(kernel.median_ms()), absl::StrFormat("%.1f", gflops), kernel.symbol(), kernel.name()});
  }
  return table({"MEDIAN MS", "GFLOP/S", "KERNEL", "NODES"}, rows);
}

void print(const CommandLine& line, const SandboxedRun& run, const Answer& answer, const OutputFolder& folder,
           const worker::Measures& measures) {
  std::vector<double> times_ms(answer.profile.latency_ms().begin(), answer.profile.latency_ms().end());
  if (times_ms.empty()) times_ms = {answer.execute.latency_ms()};
  const Latency latency = summarize(std::move(times_ms));
  if (line.json) {
    std::vector<v1::TensorSpec> specs;
    for (const v1::TensorValue& output : answer.execute.outputs()) specs.push_back(output.spec());
    std::cout
        << absl::StrFormat(
               R"({"latency_ms":{"median":%.6f,"min":%.6f,"p90":%.6f,"p99":%.6f,"max":%.6f},"runs":%d,"threads":%d)",
               latency.median, latency.min, latency.p90, latency.p99, latency.max, latency.runs, run.threads)
        << ",\"outputs\":" << outputsJson(specs, folder.files())
        << (run.steps ? ",\"steps\":" + stepsJson(answer.profile) : "") << ",\"sandbox\":" << measuresJson(measures)
        << "}\n";
    return;
  }
  std::cout << latency.text() << ", " << run.threads << (run.threads == 1 ? " thread" : " threads")
            << ", in the sandbox\n";
  if (run.steps) std::cout << stepTable(answer.profile);
  for (int i = 0; i < answer.execute.outputs_size(); ++i) {
    const v1::TensorSpec& spec = answer.execute.outputs(i).spec();
    std::cout << "  " << printable(spec.name()) << ": " << typeText(spec) << inFile(folder, static_cast<size_t>(i))
              << "\n";
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<StandaloneSandbox>> openSandbox(const SandboxFlags& flags) {
  worker::StandaloneSandboxOptions options;
  options.binary = siblingBinary("tessera-task");
  options.sandbox.user = flags.user;
  options.sandbox.scratch_bytes = flags.scratch_bytes;
  options.required = flags.required;
  options.memory_bytes = flags.memory_bytes;
  auto sandbox = StandaloneSandbox::open(options);
  if (!absl::IsFailedPrecondition(sandbox.status())) return sandbox;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
  failure.set_attribute("--require-sandbox");
  failure.set_message(std::string(sandbox.status().message()));
  failure.set_fix("require fewer measures, or run it on a machine that supports them");
  return failureStatus(failure);
}

CLI::Option* SandboxFlags::addTo(CLI::App* command) {
  auto* sandbox = command->add_flag("--sandbox", on,
                                    "run an artifact of unknown origin, signed or not, in a process that can only "
                                    "compute: the sandbox of the service's tasks");
  command
      ->add_option("--require-sandbox", required,
                   "with --sandbox: require these measures (system-calls, privileges, limits, files, namespaces, user, "
                   "processes, scratch), or full: all of them")
      ->delimiter(',')
      ->needs(sandbox);
  command->add_option("--sandbox-user", user, "with --sandbox: user of the process; needs root")->needs(sandbox);
  command->add_option("--timeout", timeout, "with --sandbox: time limit, e.g. 30s")
      ->capture_default_str()
      ->needs(sandbox);
  command->add_option("--memory-limit", memory_bytes, "with --sandbox: limit of address space, e.g. 8GiB")
      ->transform(CLI::AsSizeValue(false))
      ->needs(sandbox);
  for (const char* contrary : {"--trust", "--untrusted", "--verify"}) sandbox->excludes(command->get_option(contrary));
  return sandbox;
}

int runSandboxed(const CommandLine& line, const SandboxFlags& flags, const SandboxedRun& run) {
  spdlog::set_level(spdlog::level::off);  // log lines of the worker code
  const auto timeout_us = parseDuration(flags.timeout);
  if (!timeout_us.ok()) return reportError(timeout_us.status(), line.json);
  auto opened = openSandbox(flags);
  if (!opened.ok()) return reportError(opened.status(), line.json);
  StandaloneSandbox& sandbox = **opened;
  const std::vector<std::string> missing = missingMeasures({kFullSandbox}, sandbox.measures());
  if (!missing.empty() && !line.quiet && !line.json) {
    std::cerr << "tessera: this sandbox is without " << absl::StrJoin(missing, "; ") << "\n";
  }
  worker::Cancellation cancellation;
  InterruptWatch interrupts;
  interrupts.jobMayExist();
  interrupts.setCancelAction([&cancellation] { cancellation.cancel(worker::StopReason::kCancelled); });
  const auto artifact = sandbox.takeArtifact(run.artifact);
  if (!artifact.ok()) return reportError(artifact.status(), line.json);
  const auto inputs = inputsOf(run, sandbox.memoryBytes());
  if (!inputs.ok()) return reportError(inputs.status(), line.json);
  const auto answer = answerOf(sandbox, run, *inputs, *artifact, *timeout_us, cancellation);
  if (!answer.ok()) return reportError(answer.status(), line.json);
  OutputFolder folder(run.output_folder);
  if (!run.output_folder.empty()) {
    if (absl::Status status = writeOutputs(folder, answer->execute); !status.ok()) {
      return reportError(status, line.json);
    }
  }
  print(line, run, *answer, folder, sandbox.measures());
  return 0;
}

}  // namespace tessera::client
