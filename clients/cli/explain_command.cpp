// tessera explain: how the compiler transforms a model's graph; why a request is, or is not, answered from the cache.

#include <fstream>
#include <iostream>
#include <set>
#include <span>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/analysis.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/command.h"
#include "clients/cli/dataflow_explanation.h"
#include "clients/cli/drawing/picture.h"
#include "clients/cli/explanation_text.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "clients/cpp/compile.h"
#include "clients/cpp/local_file.h"
#include "compiler/schedule/pins.h"
#include "proto/messages/plan_view.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

struct ExplainFlags {
  AnalysisFlags question;
  DataflowExplanationFlags dataflow;
  std::string dot, svg, plan_out;
  bool key = false, nodes = false;
};

bool isArtifact(const std::string& model) { return model.ends_with(".tsra"); }

// An artifact is already compiled, so flags that describe a compilation are errors instead of being ignored.
void refuseFlagsOfModels(const CLI::App& command) {
  const std::set<std::string> known = {"MODEL", "--help",     "--nodes",    "--dot",
                                       "--svg", "--plan-out", "--dataflow", "--time"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0 && !known.contains(option->get_name()))
      throw CLI::ValidationError(option->get_name(), "cannot be used with a compiled file (.tsra); name the model");
  }
}

// Reads the Plan of an artifact file. It does not contain the model's own nodes.
absl::StatusOr<v1::Explanation> explainArtifact(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(auto plan, readPlan(path));
  v1::Explanation explanation;
  *explanation.mutable_after() = viewPlan(plan);
  *explanation.mutable_plan() = std::move(plan);
  for (v1::Workload& workload : *explanation.mutable_plan()->mutable_workloads()) workload.clear_ir();
  return explanation;
}

absl::StatusOr<v1::Explanation> explainModel(CommandLine& line, const AnalysisFlags& flags) {
  TESSERA_ASSIGN_OR_RETURN(auto bytes, requestAnalysis(line, flags, v1::AnalyzeSpec::EXPLAIN));
  v1::Explanation explanation;
  if (explanation.ParseFromString(bytes)) return explanation;
  return absl::DataLossError("the service's report cannot be read");
}

absl::StatusOr<std::string> artifactBytes(CommandLine& line, const AnalysisFlags& flags) {
  if (!isArtifact(flags.model.model)) {
    // Found before the model is compiled.
    TESSERA_ASSIGN_OR_RETURN(const v1::Target target, describedTarget(line, flags.model.target));
    if (target.family() != v1::Target::SPATIAL)
      return absl::InvalidArgumentError(absl::StrCat("--dataflow explains programs of described chips; found --target ",
                                                     flags.model.target, ", accepted are targets of family SPATIAL"));
    return requestArtifact(line, flags);
  }
  std::ifstream file(flags.model.model, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat(flags.model.model, ": cannot be read"));
  return std::move(bytes).str();
}

absl::Status explainDataflows(CommandLine& line, const ExplainFlags& flags) {
  for (const auto& [name, given] : {std::pair{"--nodes", flags.nodes}, std::pair{"--dot", !flags.dot.empty()},
                                    std::pair{"--plan-out", !flags.plan_out.empty()}, std::pair{"--key", flags.key}}) {
    if (given) return absl::InvalidArgumentError(absl::StrCat(name, " does not go with --dataflow"));
  }
  if (!flags.svg.empty()) TESSERA_RETURN_IF_ERROR(checkOutputPath(flags.svg));
  TESSERA_ASSIGN_OR_RETURN(const std::string artifact, artifactBytes(line, flags.question));
  const std::span<const char> bytes(artifact);
  return explainDataflow(line, flags.dataflow, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                         flags.svg);
}

int explain(CommandLine& line, const ExplainFlags& flags) {
  const std::string& model = flags.question.model.model;
  for (const std::string* path : {&flags.dot, &flags.svg, &flags.plan_out}) {
    if (absl::Status status = path->empty() ? absl::OkStatus() : checkOutputPath(*path); !status.ok())
      return reportError(status, line.json);
  }
  auto explanation = isArtifact(model) ? explainArtifact(model) : explainModel(line, flags.question);
  if (!explanation.ok()) return reportError(explanation.status(), line.json);
  for (const auto& [path, draw] : {std::pair{&flags.dot, &dotText}, std::pair{&flags.svg, &svgText}}) {
    if (path->empty()) continue;
    if (absl::Status status = writeText(*path, draw(*explanation)); !status.ok()) {
      return reportError(status, line.json);
    }
  }
  if (!flags.plan_out.empty()) {
    absl::Status status = writeText(flags.plan_out, compiler::printPins(compiler::pinsOf(explanation->plan())));
    if (!status.ok()) return reportError(status, line.json);
  }
  std::cout << (line.json ? toJson(*explanation) + "\n" : explanationText(*explanation, flags.nodes));
  return 0;
}

int explainKey(const CommandLine& line, const ModelFlags& flags) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  CompileRequest request;
  if (absl::Status status = flags.fill(request); !status.ok()) return reportError(status, line.json);
  v1::ExplainKeyRequest explain;
  *explain.mutable_compile() = request.spec;
  if (auto files = nameFiles(request, *explain.mutable_compile()); !files.ok())
    return reportError(files.status(), line.json);
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
  CLI::App* command =
      line.add("explain", "Explain how a model's graph is transformed, or the plan in an artifact file");
  auto flags = std::make_shared<ExplainFlags>();
  flags->question.addTo(command);
  flags->dataflow.addTo(command);
  command->add_flag("--nodes", flags->nodes,
                    "list every node of the model and every decision, instead of sums and differences");
  command->add_option("--dot", flags->dot, "also draw both graphs to this file, for Graphviz");
  command->add_option("--svg", flags->svg, "also draw both graphs to this file, as SVG; with --dataflow the trees");
  command->add_option("--plan-out", flags->plan_out,
                      "also write every decision to this file, to edit and pass to --pin or --plan");
  command->add_flag("--key", flags->key,
                    "explain the cache key instead: its components, and which differ from the nearest earlier request");
  command->footer("For a .tsra file, its fused groups, schedules and memory plan are shown.");
  command->callback([&line, flags, command] {
    if (isArtifact(flags->question.model.model)) refuseFlagsOfModels(*command);
    line.action = [&line, flags] {
      if (flags->dataflow.wanted) {
        const absl::Status status = explainDataflows(line, *flags);
        return status.ok() ? 0 : reportError(status, line.json);
      }
      return flags->key ? explainKey(line, flags->question.model) : explain(line, *flags);
    };
  });
}

}  // namespace tessera::client
