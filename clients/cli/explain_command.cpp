// tessera explain: why a request is, or is not, answered from the cache; what was decided for it.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/command.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/output.h"
#include "clients/cpp/digest.h"

namespace tessera::client {
namespace {

std::string percent(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : absl::StrFormat("%.2f", static_cast<double>(part) / static_cast<double>(whole));
}

// What the graph level did for one variant, memory against its bounds.
void printGraph(const v1::Plan& plan, bool named) {
  if (named) {
    std::cout << "variant " << absl::StrJoin(plan.dimensions(), " ", [](std::string* out, const auto& dimension) {
      absl::StrAppend(out, dimension.name(), "=", dimension.size());
    }) << ": " << absl::StrJoin(plan.inputs(), ", ", [](std::string* out, const auto& input) {
      absl::StrAppend(out, input.name(), " ", typeText(input));
    }) << "\n";
  }
  const v1::GraphReport& report = plan.report();
  std::cout << "graph: " << report.nodes_before() << " nodes in " << report.groups_after() << " groups, "
            << report.layout_transforms() << " layout transforms\n";
  for (const auto& rewrite : report.rewrites()) std::cout << "  " << rewrite.name() << ": " << rewrite.count() << "\n";
  std::cout << "memory: arena " << bytesText(plan.arena_bytes()) << ", largest live set "
            << bytesText(report.peak_live_bytes()) << " (" << percent(plan.arena_bytes(), report.peak_live_bytes())
            << "x), all intermediates " << bytesText(report.sum_intermediate_bytes()) << "\n";
}

// The Plan within an artifact file: groups with their work and intensity, memory against its bounds.
int explainArtifact(const CommandLine& line, const std::string& path) {
  auto plan = readPlan(path);
  if (!plan.ok()) return reportError(plan.status(), line.json);
  if (line.json) {
    std::cout << toJson(*plan) << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<int> uses(plan->workloads_size());
  std::vector<const v1::Plan*> variants = {&*plan};
  for (const v1::Plan& variant : plan->variants()) variants.push_back(&variant);
  for (const v1::Plan* variant : variants) {
    for (const v1::Step& step : variant->steps()) ++uses[step.workload()];
  }
  for (int i = 0; i < plan->workloads_size(); ++i) {
    const v1::Workload& workload = plan->workloads(i);
    rows.push_back({workload.hash().substr(0, 12), absl::StrCat(uses[i]),
                    absl::StrFormat("%.1f", static_cast<double>(workload.flops()) / 1e6), bytesText(workload.bytes()),
                    percent(workload.flops(), workload.bytes()), workload.schedule().strategy(),
                    absl::StrJoin(workload.schedule().register_tile(), "x"), workload.summary()});
  }
  std::cout << table({"WORKLOAD", "USES", "MFLOP", "BYTES", "FLOP/B", "STRATEGY", "TILE", "WHAT"}, rows);
  for (const v1::Plan* variant : variants) printGraph(*variant, variants.size() > 1);
  std::cout << "weights " << bytesText(plan->weights_bytes()) << "\n";
  return 0;
}

int explainKey(const CommandLine& line, const ModelFlags& flags) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  CompileRequest request;
  if (absl::Status status = flags.fill(request); !status.ok()) return reportError(status, line.json);
  v1::ExplainKeyRequest explain;
  *explain.mutable_compile() = request.spec;
  auto digest = cachedDigestOfFile(request.model_path, request.digest_cache);
  if (!digest.ok()) return reportError(digest.status(), line.json);
  *explain.mutable_compile()->mutable_model() = *digest;
  for (const auto& [location, path] : request.external_data) {
    auto external = cachedDigestOfFile(path, request.digest_cache);
    if (!external.ok()) return reportError(external.status(), line.json);
    (*explain.mutable_compile()->mutable_external_data())[location] = *external;
  }
  auto answer = (*channel)->call((*channel)->jobs(), &v1::JobService::Stub::ExplainKey, explain);
  if (!answer.ok()) return reportError(answer.status(), line.json);
  if (line.json) {
    std::cout << toJson(*answer) << "\n";
    return 0;
  }
  std::cout << "action key " << answer->action_key() << (answer->hit() ? "  (in the cache)" : "  (not in the cache)")
            << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& part : answer->components()) {
    const bool differs =
        std::find(answer->differing().begin(), answer->differing().end(), part.name()) != answer->differing().end();
    rows.push_back({differs ? "*" : "", part.name(), part.hash().substr(0, 12), part.summary()});
  }
  std::cout << table({"", "COMPONENT", "HASH", "WHAT"}, rows);
  if (!answer->hit() && !answer->nearest_job_id().empty()) {
    std::cout << "differs in " << absl::StrJoin(answer->differing(), ", ") << " from job " << answer->nearest_job_id()
              << "\n";
  }
  return 0;
}

}  // namespace

void addExplainCommand(CommandLine& line) {
  CLI::App* command = line.add("explain", "Explain a request's cache key, or the plan in an artifact file");
  auto flags = std::make_shared<ModelFlags>();
  flags->addTo(command);
  command->footer("MODEL may be a .tsra file: then its fused groups, schedules and memory plan are printed.");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      return flags->model.ends_with(".tsra") ? explainArtifact(line, flags->model) : explainKey(line, *flags);
    };
  });
}

}  // namespace tessera::client
