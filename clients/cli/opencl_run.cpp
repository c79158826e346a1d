#include "clients/cli/opencl_run.h"

#include <chrono>
#include <iostream>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/latency.h"
#include "clients/cli/output.h"
#include "clients/cli/plan_inputs.h"
#include "clients/cli/tensor_flags.h"
#include "compiler/backends/opencl/session.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using compiler::opencl::OpenClArtifact;
using compiler::opencl::OpenClSession;

struct DeviceRun {
  std::string device;
  Latency latency;
  std::vector<std::string> step_names;
  std::vector<double> step_ms;
  std::vector<v1::TensorSpec> outputs;
  OutputFolder folder;
};

absl::StatusOr<DeviceRun> runOnDevice(const OpenClRunRequest& request) {
  TESSERA_ASSIGN_OR_RETURN(const auto artifact, OpenClArtifact::open(request.file, request.verify_weights));
  TESSERA_ASSIGN_OR_RETURN(auto files, readInputs(request.inputs.files));
  TESSERA_ASSIGN_OR_RETURN(const size_t variant, selectVariantOf(artifact->plan(), artifact->module(),
                                                                 artifact->variants(), request.inputs, files));
  const v1::Plan& plan = artifact->variant(variant);
  TESSERA_ASSIGN_OR_RETURN(const auto given, completedInputs(request.inputs, plan, std::move(files)));
  std::vector<std::string_view> inputs;
  for (const v1::TensorSpec& spec : plan.inputs()) inputs.emplace_back(given.at(spec.name()).bytes);
  TESSERA_ASSIGN_OR_RETURN(const auto session, OpenClSession::create(*artifact, variant));
  DeviceRun ran{.device = session->device().name,
                .latency = {},
                .step_names = {},
                .step_ms = {},
                .outputs = {},
                .folder = OutputFolder(request.output_folder)};
  std::vector<std::string> outputs;
  std::vector<double> times_ms;
  for (int r = -request.warmup; r < request.repeat; ++r) {
    const auto start = std::chrono::steady_clock::now();
    TESSERA_RETURN_IF_ERROR(session->run(inputs, outputs));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (r >= 0) times_ms.push_back(took.count());
  }
  ran.latency = summarize(std::move(times_ms));
  for (const v1::Step& step : plan.steps()) ran.step_names.push_back(step.name());
  ran.step_ms = session->stepTimes();
  ran.outputs = session->outputSpecs();
  if (!request.output_folder.empty())
    for (size_t i = 0; i < outputs.size(); ++i) TESSERA_RETURN_IF_ERROR(ran.folder.write(ran.outputs[i], outputs[i]));
  return ran;
}

void printText(const DeviceRun& ran, bool steps) {
  std::cout << ran.latency.text() << " on " << ran.device << "\n";
  if (steps) {
    std::vector<std::vector<std::string>> rows;
    for (size_t s = 0; s < ran.step_ms.size(); ++s)
      rows.push_back({absl::StrFormat("%.3f", ran.step_ms[s]), ran.step_names[s]});
    std::cout << table({"MS", "NODES"}, rows);
  }
  for (size_t i = 0; i < ran.outputs.size(); ++i)
    std::cout << "  " << ran.outputs[i].name() << ": " << typeText(ran.outputs[i]) << inFile(ran.folder, i) << "\n";
}

void printJson(const DeviceRun& ran, bool steps) {
  std::cout << absl::StrFormat(
      R"({"latency_ms":{"median":%.6f,"min":%.6f,"p90":%.6f,"p99":%.6f,"max":%.6f},"runs":%d,"device":%s,"outputs":%s)",
      ran.latency.median, ran.latency.min, ran.latency.p90, ran.latency.p99, ran.latency.max, ran.latency.runs,
      jsonString(ran.device), outputsJson(ran.outputs, ran.folder.files()));
  if (steps) {
    std::cout << ",\"steps\":[";
    for (size_t s = 0; s < ran.step_ms.size(); ++s)
      std::cout << (s > 0 ? "," : "")
                << absl::StrFormat(R"({"name":%s,"ms":%.6f})", jsonString(ran.step_names[s]), ran.step_ms[s]);
    std::cout << "]";
  }
  std::cout << "}\n";
}

}  // namespace

int runOpenCl(const CommandLine& line, const OpenClRunRequest& request) {
  const absl::StatusOr<DeviceRun> ran = runOnDevice(request);
  if (!ran.ok()) return reportError(ran.status(), line.json);
  line.json ? printJson(*ran, request.steps) : printText(*ran, request.steps);
  return 0;
}

}  // namespace tessera::client
