// tessera execute | profile: run an artifact on one of the service's workers.

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/latency.h"
#include "clients/cli/output.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/transfer.h"

namespace tessera::client {
namespace {

constexpr size_t kInlineBytes = 1 << 20;  // TensorValue.data's limit
constexpr auto kPatience = std::chrono::minutes(30);

struct RemoteFlags {
  std::string artifact;
  std::vector<std::string> inputs;
  std::string output_folder, queue_timeout, run_timeout;
  int threads = 1, warmup = 3, repeat = 10;
  uint64_t seed = 1;
};

// Small tensors travel inside the message, large ones as blobs.
template <typename Spec>
absl::Status addInputs(Channel& channel, const std::vector<std::string>& flags, Spec& spec) {
  auto inputs = readInputs(flags);
  if (!inputs.ok()) return inputs.status();
  for (auto& [name, tensor] : *inputs) {
    v1::TensorValue* value = spec.add_inputs();
    *value->mutable_spec() = tensor.spec;
    if (tensor.bytes.size() <= kInlineBytes) {
      value->set_data(std::move(tensor.bytes));
      continue;
    }
    *value->mutable_blob() = digestOf(tensor.bytes);
    if (absl::Status status = uploadBytes(channel, tensor.bytes, value->blob()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename Request>
absl::Status addDeadlines(const RemoteFlags& flags, Request& request) {
  if (!flags.queue_timeout.empty()) {
    auto parsed = parseDuration(flags.queue_timeout);
    if (!parsed.ok()) return parsed.status();
    request.set_queue_timeout_us(*parsed);
  }
  if (!flags.run_timeout.empty()) {
    auto parsed = parseDuration(flags.run_timeout);
    if (!parsed.ok()) return parsed.status();
    request.set_run_timeout_us(*parsed);
  }
  return absl::OkStatus();
}

int execute(const CommandLine& line, const RemoteFlags& flags) {
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  v1::ExecuteRequest request;
  request.mutable_spec()->set_artifact_id(flags.artifact);
  request.mutable_spec()->set_threads(flags.threads);
  absl::Status status = addInputs(channel, flags.inputs, *request.mutable_spec());
  if (status.ok()) status = addDeadlines(flags, request);
  if (!status.ok()) return reportError(status, line.json);
  auto answer = channel.call(channel.execution(), &v1::ExecutionService::Stub::Execute, request,
                             {.timeout = kPatience, .attempts = 1});
  if (!answer.ok()) return reportError(answer.status(), line.json);
  for (v1::TensorValue& output : *answer->mutable_result()->mutable_outputs()) {
    std::string bytes = output.data();
    if (output.has_blob()) {
      auto fetched = downloadBytes(channel, output.blob());
      if (!fetched.ok()) return reportError(fetched.status(), line.json);
      bytes = std::move(*fetched);
    }
    if (!flags.output_folder.empty()) {
      status = writeOutput(flags.output_folder, output.spec(), bytes);
      if (!status.ok()) return reportError(status, line.json);
      output.clear_value();  // it is in the file now
    }
  }
  if (line.json) {
    std::cout << toJson(*answer) << "\n";
    return 0;
  }
  std::cout << "job " << answer->job_id() << ": " << durationText(answer->result().latency_ms()) << "\n";
  for (const auto& output : answer->result().outputs()) {
    std::cout << "  " << output.spec().name() << ": " << typeText(output.spec()) << "\n";
  }
  return 0;
}

int profile(const CommandLine& line, const RemoteFlags& flags) {
  auto connected = line.connect();
  if (!connected.ok()) return reportError(connected.status(), line.json);
  Channel& channel = **connected;
  v1::ProfileRequest request;
  v1::ProfileSpec& spec = *request.mutable_spec();
  spec.set_artifact_id(flags.artifact);
  spec.set_threads(flags.threads);
  spec.set_warmup(flags.warmup);
  spec.set_repeat(flags.repeat);
  spec.set_seed(flags.seed);
  absl::Status status = addInputs(channel, flags.inputs, spec);
  if (status.ok()) status = addDeadlines(flags, request);
  if (!status.ok()) return reportError(status, line.json);
  auto answer = channel.call(channel.execution(), &v1::ExecutionService::Stub::Profile, request,
                             {.timeout = kPatience, .attempts = 1});
  if (!answer.ok()) return reportError(answer.status(), line.json);
  if (line.json) {
    std::cout << toJson(*answer) << "\n";
    return 0;
  }
  const v1::ProfileResult& result = answer->result();
  std::cout << summarize({result.latency_ms().begin(), result.latency_ms().end()}).text() << " on "
            << result.host().hostname() << " (" << result.host().cpu_model() << ")\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& kernel : result.kernels()) {
    const double gflops = kernel.median_ms() > 0 ? static_cast<double>(kernel.flops()) / kernel.median_ms() / 1e6 : 0;
    rows.push_back(
        {absl::StrFormat("%.4f", kernel.median_ms()), absl::StrFormat("%.1f", gflops), kernel.symbol(), kernel.name()});
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
    command->add_option("ARTIFACT", flags->artifact, "its id")->required();
    command->add_option("-i,--input", flags->inputs, "NAME=FILE.npy or FILE.npz; repeat for each input");
    command->add_option("--threads", flags->threads)->capture_default_str()->check(CLI::Range(1, 1024));
    command->add_option("--queue-timeout", flags->queue_timeout, "how long it may wait to start, e.g. 30s");
    command->add_option("--timeout", flags->run_timeout, "how long it may run, e.g. 5m");
  }
  run->add_option("-o,--output-dir", flags->output_folder, "write DIR/<output>.npy");
  time->add_option("--warmup", flags->warmup)->capture_default_str()->check(CLI::Range(1, 1'000'000));
  time->add_option("--repeat", flags->repeat)->capture_default_str()->check(CLI::Range(1, 1'000'000));
  time->add_option("--seed", flags->seed, "for inputs that are not given")->capture_default_str();
  run->callback([&line, flags] { line.action = [&line, flags] { return execute(line, *flags); }; });
  time->callback([&line, flags] { line.action = [&line, flags] { return profile(line, *flags); }; });
}

}  // namespace tessera::client
