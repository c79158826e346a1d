// tessera coverage: counts the operators of a model that a chip's instructions can compute (thesis, table 5.1).

#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/analysis.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "compiler/intrinsic/coverage.h"
#include "proto/support/status_macros.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::client {
namespace {

using compiler::intrinsic::Coverage;
using compiler::intrinsic::CoveredOperator;

struct CoverageFlags {
  AnalysisFlags question;
  std::vector<std::string> more;  ///< models after the first
  bool nodes = false;
};

absl::StatusOr<Coverage> coverageOfModel(CommandLine& line, AnalysisFlags question, const std::string& model,
                                         const v1::Target& target) {
  question.model.model = model;
  question.model.target = "host";  // loop nests do not depend on the target
  TESSERA_ASSIGN_OR_RETURN(auto bytes, requestAnalysis(line, question, v1::AnalyzeSpec::EXPLAIN));
  v1::Explanation explanation;
  if (!explanation.ParseFromString(bytes)) return absl::DataLossError("the service's report cannot be read");
  return compiler::intrinsic::coverageOf(explanation, target);
}

std::string jsonOf(const std::string& model, const Coverage& coverage) {
  std::vector<std::string> entries;
  for (const CoveredOperator& entry : coverage.operators) {
    entries.push_back(
        absl::StrFormat(R"({"node":%d,"name":%s,"op":%s,"nest":%s,"mappings":%d,"instruction":%s,"obstacle":%s})",
                        entry.node, jsonString(entry.name), jsonString(entry.op), jsonString(entry.nest),
                        entry.mappings, jsonString(entry.instruction), jsonString(entry.obstacle)));
  }
  return absl::StrFormat(
      R"({"model":%s,"nodes":%d,"computing":%d,"mapped":%d,"nests":%d,"mapped_nests":%d,"operators":[%s]})",
      jsonString(model), coverage.nodes, coverage.operators.size(), coverage.mapped(), coverage.nests,
      coverage.mapped_nests, absl::StrJoin(entries, ","));
}

std::string operatorTable(const Coverage& coverage) {
  std::vector<std::vector<std::string>> rows;
  for (const CoveredOperator& entry : coverage.operators) {
    rows.push_back({entry.name, entry.op, entry.mappings > 0 ? absl::StrCat(entry.mappings) : "-",
                    entry.mappings > 0 ? entry.instruction : entry.obstacle, entry.nest});
  }
  return table({"NODE", "OPERATOR", "MAPPINGS", "INSTRUCTION, OR WHY NOT", "LOOPS"}, rows);
}

int coverage(CommandLine& line, const CoverageFlags& flags) {
  const auto target = describedTarget(line, flags.question.model.target);
  if (!target.ok()) return reportError(target.status(), line.json);
  std::vector<std::string> models = {flags.question.model.model}, entries;
  models.insert(models.end(), flags.more.begin(), flags.more.end());
  std::vector<std::vector<std::string>> rows;
  for (const std::string& path : models) {
    const std::string name = std::filesystem::path(path).stem();
    const auto covered = coverageOfModel(line, flags.question, path, *target);
    if (!covered.ok()) return reportError(covered.status(), line.json);
    const auto thesis = compiler::intrinsic::thesisCoverage(name);
    rows.push_back({name, absl::StrCat(covered->nodes), absl::StrCat(covered->operators.size()),
                    absl::StrCat(covered->mapped()), absl::StrCat(covered->mapped_nests),
                    thesis ? absl::StrCat(thesis->amos, " of ", thesis->operators) : "-",
                    thesis ? absl::StrCat(thesis->xla) : "-"});
    entries.push_back(jsonOf(name, *covered));
    if (flags.nodes && !line.json) std::cout << operatorTable(*covered) << "\n";
  }
  if (line.json) {
    std::cout << R"({"target":)" << jsonString(target->name()) << R"(,"models":[)" << absl::StrJoin(entries, ",")
              << "]}\n";
  } else {
    std::cout << table({"MODEL", "NODES", "COMPUTE", "MAPPED", "NESTS", "THESIS", "XLA, BY THE THESIS"}, rows);
  }
  return kExitOk;
}

}  // namespace

void addCoverageCommand(CommandLine& line) {
  CLI::App* command = line.add("coverage", "Count the operators of models that a chip's instructions can compute");
  auto flags = std::make_shared<CoverageFlags>();
  flags->question.addTo(command);
  command->add_option("--also", flags->more, "further models, analyzed with the same flags");
  command->add_flag("--nodes", flags->nodes, "list every operator with its mapping, or the reason why it has none");
  command->footer(
      "NODES counts the model's nodes; COMPUTE those with loops; MAPPED those that are sums of products which "
      "some\ninstruction computes, in any element type; NESTS their loop nests (a recurrence has several). THESIS "
      "is\ntable 5.1, whose networks come from other exporters, with fused operators counted as one.");
  command->callback([&line, flags] { line.action = [&line, flags] { return coverage(line, *flags); }; });
}

}  // namespace tessera::client
