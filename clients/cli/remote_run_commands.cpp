// tessera execute | profile: run an artifact on a worker of the service.

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/label_flags.h"
#include "clients/cli/latency.h"
#include "clients/cli/manifest_variant.h"
#include "clients/cli/output.h"
#include "clients/cli/shape_flags.h"
#include "clients/cli/simulated_run.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/transfer.h"
#include "clients/cpp/versions.h"
#include "proto/messages/failure.h"
#include "proto/support/printable.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr auto kReconnectTimeout = std::chrono::minutes(30);

struct RemoteFlags {
  std::string artifact;
  std::string job;  // used instead of an artifact
  int version = 0;
  std::vector<std::string> inputs;
  ShapeFlags shapes;  // of profile
  std::string output_folder, queue_timeout, run_timeout;
  int threads = 1, warmup = 3, repeat = 10;
  uint64_t seed = 1;
  LabelFlags labels;
};

template <typename Spec>
void addArtifact(const RemoteFlags& flags, Spec& spec) {
  spec.set_artifact_id(flags.artifact);
  spec.set_job_id(flags.job);
  spec.set_version(flags.version);
}

// Names the version that ran, if the job has several.
template <typename Response>
std::string whichRan(const Response& answer) {
  return answer.version() == 0 ? "" : absl::StrCat("version ", answer.version(), ": ");
}

template <typename Spec>
absl::Status addInputs(Channel& channel, const std::vector<std::string>& flags, Spec& spec) {
  TESSERA_ASSIGN_OR_RETURN(auto inputs, readInputs(flags));
  for (auto& [name, tensor] : inputs) {
    v1::TensorValue* value = spec.add_inputs();
    *value->mutable_spec() = tensor.spec;
    TESSERA_RETURN_IF_ERROR(attachBytes(channel, std::move(tensor.bytes), *value));
  }
  return absl::OkStatus();
}

template <typename Request>
absl::Status addTermsOfJob(const RemoteFlags& flags, Request& request) {
  TESSERA_ASSIGN_OR_RETURN(const auto labels, flags.labels.parse());
  request.mutable_labels()->insert(labels.begin(), labels.end());
  if (!flags.queue_timeout.empty()) {
    TESSERA_ASSIGN_OR_RETURN(auto parsed, parseDuration(flags.queue_timeout));
    request.set_queue_timeout_us(parsed);
  }
  if (!flags.run_timeout.empty()) {
    TESSERA_ASSIGN_OR_RETURN(auto parsed, parseDuration(flags.run_timeout));
    request.set_run_timeout_us(parsed);
  }
  return absl::OkStatus();
}

int execute(const CommandLine& line, const RemoteFlags& flags) {
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  v1::ExecuteRequest request;
  addArtifact(flags, *request.mutable_spec());
  request.mutable_spec()->set_threads(flags.threads);
  absl::Status status = addInputs(channel, flags.inputs, *request.mutable_spec());
  if (status.ok()) status = addTermsOfJob(flags, request);
  if (!status.ok()) return reportError(status, line.json);
  auto answer = channel.call(channel.execution(), &v1::ExecutionService::Stub::Execute, request,
                             {.timeout = kReconnectTimeout, .attempts = 1});
  if (!answer.ok()) return reportError(answer.status(), line.json);
  OutputFolder folder(flags.output_folder);
  for (v1::TensorValue& output : *answer->mutable_result()->mutable_outputs()) {
    auto bytes = bytesOf(channel, output);
    if (!bytes.ok()) return reportError(bytes.status(), line.json);
    if (!flags.output_folder.empty()) {
      status = folder.write(output.spec(), *bytes);
      if (!status.ok()) return reportError(status, line.json);
      output.clear_value();  // written to the file
    }
  }
  if (line.json) {
    std::string json = toJson(*answer);
    if (!folder.files().empty()) {
      json.pop_back();
      absl::StrAppend(
          &json, ",\"files\":[",
          absl::StrJoin(folder.files(), ",", [](std::string* out, const auto& file) { *out += jsonString(file); }),
          "]}");
    }
    std::cout << json << "\n";
    return 0;
  }
  const v1::ExecuteResult& result = answer->result();
  std::cout << "job " << answer->job_id() << ": " << whichRan(*answer)
            << (result.has_simulated() ? simulatedText(result.simulated()) : durationText(result.latency_ms()) + "\n");
  for (int i = 0; i < answer->result().outputs_size(); ++i) {
    const v1::TensorSpec& spec = answer->result().outputs(i).spec();
    std::cout << "  " << printable(spec.name()) << ": " << typeText(spec) << inFile(folder, static_cast<size_t>(i))
              << "\n";
  }
  return 0;
}

// Adds inputs without values, in the shapes of the variant that --dim and --shape select; the worker fills them.
absl::Status addChosenShapes(Channel& channel, const ShapeFlags& flags, v1::ProfileSpec& spec) {
  TESSERA_ASSIGN_OR_RETURN(auto choice, flags.choice());
  if (choice.dimensions_size() == 0 && choice.input_shapes_size() == 0) return absl::OkStatus();
  v1::GetArtifactRequest request;
  request.set_id(spec.artifact_id());
  if (!spec.job_id().empty()) {  // the shapes belong to one version, which must be the one that runs
    TESSERA_ASSIGN_OR_RETURN(auto version, versionToRun(channel, spec.job_id(), spec.version()));
    spec.set_version(version.number());
    request.set_id(version.artifact_id());
  }
  TESSERA_ASSIGN_OR_RETURN(auto answer,
                           channel.call(channel.artifacts(), &v1::ArtifactService::Stub::GetArtifact, request));
  TESSERA_ASSIGN_OR_RETURN(const auto chosen, chosenVariant(answer.artifact().manifest(), choice));
  for (const v1::TensorSpec& input : chosen->inputs()) {
    const bool given = std::any_of(spec.inputs().begin(), spec.inputs().end(),
                                   [&](const auto& each) { return each.spec().name() == input.name(); });
    if (!given) *spec.add_inputs()->mutable_spec() = input;
  }
  return absl::OkStatus();
}

int profile(const CommandLine& line, const RemoteFlags& flags) {
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  v1::ProfileRequest request;
  v1::ProfileSpec& spec = *request.mutable_spec();
  addArtifact(flags, spec);
  spec.set_threads(flags.threads);
  spec.set_warmup(flags.warmup);
  spec.set_repeat(flags.repeat);
  spec.set_seed(flags.seed);
  absl::Status status = addInputs(channel, flags.inputs, spec);
  if (status.ok()) status = addChosenShapes(channel, flags.shapes, spec);
  if (status.ok()) status = addTermsOfJob(flags, request);
  if (!status.ok()) return reportError(status, line.json);
  auto answer = channel.call(channel.execution(), &v1::ExecutionService::Stub::Profile, request,
                             {.timeout = kReconnectTimeout, .attempts = 1});
  if (!answer.ok()) return reportError(answer.status(), line.json);
  if (line.json) {
    std::cout << toJson(*answer) << "\n";
    return 0;
  }
  const v1::ProfileResult& result = answer->result();
  if (result.has_simulated()) {
    std::cout << whichRan(*answer) << result.host().cpu_model() << ": " << simulatedText(result.simulated());
  } else {
    std::cout << whichRan(*answer) << summarize({result.latency_ms().begin(), result.latency_ms().end()}).text()
              << " on " << result.host().hostname() << " (" << result.host().cpu_model() << ")\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& kernel : result.kernels()) {
    const double gflops = kernel.median_ms() > 0 ? static_cast<double>(kernel.flops()) / kernel.median_ms() / 1e6 : 0;
    rows.push_back(
        {millisecondsText(kernel.median_ms()), absl::StrFormat("%.1f", gflops), kernel.symbol(), kernel.name()});
  }
  std::cout << table({"MEDIAN ms", "GFLOP/s", "KERNEL", "NODES"}, rows);
  return 0;
}

}  // namespace

void addRemoteRunCommands(CommandLine& line) {
  auto flags = std::make_shared<RemoteFlags>();
  CLI::App* run = line.add("execute", "Run an artifact once on a worker");
  CLI::App* time = line.add("profile", "Time an artifact, and each of its kernels, on a worker");
  for (CLI::App* command : {run, time}) {
    auto* artifact = command->add_option("ARTIFACT", flags->artifact, "its id");
    auto* job = command->add_option("--job", flags->job, "use this job's artifact; for a tune job its current version");
    job->excludes(artifact);
    command->add_option("--version", flags->version, "with --job: this version of a tune job")
        ->needs(job)
        ->check(positive());
    command->add_option("-i,--input", flags->inputs, "NAME=FILE.npy or FILE.npz; repeat for each input");
    flags->labels.addTo(command);
    command->add_option("--threads", flags->threads)->capture_default_str()->check(CLI::Range(1, 1024));
    command->add_option("--queue-timeout", flags->queue_timeout, "how long it may wait to start, e.g. 30s");
    command->add_option("--timeout", flags->run_timeout, "how long it may run, e.g. 5m");
  }
  run->add_option("-o,--output-dir", flags->output_folder,
                  "write DIR/<output>.npy and print the names (with --json: `files`)");
  flags->shapes.addChoiceTo(time);
  time->add_option("--warmup", flags->warmup)->capture_default_str()->check(CLI::Range(1, 100'000));
  time->add_option("--repeat", flags->repeat)->capture_default_str()->check(CLI::Range(1, 100'000));
  time->add_option("--seed", flags->seed, "seed of generated inputs")->capture_default_str();
  const auto requireOne = [flags] {
    if (flags->artifact.empty() && flags->job.empty()) throw CLI::RequiredError("ARTIFACT or --job");
  };
  run->callback([&line, flags, requireOne] {
    requireOne();
    line.action = [&line, flags] { return execute(line, *flags); };
  });
  time->callback([&line, flags, requireOne] {
    requireOne();
    line.action = [&line, flags] { return profile(line, *flags); };
  });
}

}  // namespace tessera::client
