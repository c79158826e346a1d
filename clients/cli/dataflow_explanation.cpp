#include "clients/cli/dataflow_explanation.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/dataflow_breakdown.h"
#include "clients/cli/dataflow_search.h"
#include "clients/cli/drawing/tree_picture.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "compiler/backends/spatial/dataflow_groups.h"
#include "compiler/runtime/artifact_reader.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using compiler::dataflow_search::Answer;
using compiler::simulator::DataflowGroup;
using compiler::simulator::DataflowProblem;

/// What the search found for one group.
struct Explained {
  DataflowGroup group;
  std::optional<Answer> answer;
  std::string reason;    ///< why there is no answer
  std::string obstacle;  ///< why no program has the form of the best tree; empty: programs have it
  double separate = 0;   ///< of a chain: cycles of the best trees of its steps, one after another; 0: unknown

  bool isChain() const { return group.steps.size() > 1; }
  const DataflowProblem& problem() const { return *group.problem; }
  bool found() const { return answer && answer->best; }
};

absl::StatusOr<Answer> search(const DataflowProblem& problem, const compiler::cost::Machine& machine,
                              int64_t microseconds) {
  compiler::dataflow_search::Options options;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  options.stopped = [end] { return std::chrono::steady_clock::now() > end; };
  return searchExact(problem.nest, machine, options);
}

void explainGroup(Explained& explained, const compiler::cost::Machine& machine, int64_t microseconds) {
  if (!explained.group.problem.ok()) {
    explained.reason = std::string(explained.group.problem.status().message());
    return;
  }
  absl::StatusOr<Answer> answer = search(explained.problem(), machine, microseconds);
  if (!answer.ok()) {
    explained.reason = std::string(answer.status().message());
    return;
  }
  if (!answer->best) explained.reason = std::string(noTreeError(*answer).message());
  explained.answer = *std::move(answer);
  if (explained.found()) explained.obstacle = obstacleOf(explained.answer->best->tree, explained.problem());
}

/// Cycles of the steps of a chain by their own best trees; 0 if one has none.
double separateCycles(const Explained& chain, const std::vector<Explained>& all, const v1::Plan& plan) {
  double sum = 0;
  for (const int step : chain.group.steps) {
    const auto same = std::ranges::find_if(all, [&](const Explained& each) {
      return !each.isChain() && plan.steps(each.group.steps.front()).workload() == plan.steps(step).workload();
    });
    if (same == all.end() || !same->found()) return 0;
    sum += same->answer->best->cost.cycles;
  }
  return sum;
}

std::string statementsText(const DataflowProblem& problem) {
  std::vector<std::string> lines;
  for (size_t s = 0; s < problem.nest.statements.size(); ++s) {
    const auto& statement = problem.nest.statements[s];
    std::vector<std::string> names, inputs;
    names.reserve(problem.nest.loops.size());
    for (const auto& loop : problem.nest.loops) names.push_back(loop.name);
    const auto accessText = [&](int position) {
      const auto& access = problem.nest.accesses[static_cast<size_t>(position)];
      return absl::StrCat(access.name, "[",
                          absl::StrJoin(access.subscripts, ", ",
                                        [&](std::string* out, const auto& each) { *out += print(each, names); }),
                          "]");
    };
    inputs.reserve(statement.inputs.size());
    for (const int input : statement.inputs) inputs.push_back(accessText(input));
    lines.push_back(absl::StrFormat("  nest %d: %s = %s of %s%s\n", s, accessText(statement.output),
                                    problem.operators[s], absl::StrJoin(inputs, ", "),
                                    problem.on_instruction[s] ? ", by an instruction" : ""));
  }
  return absl::StrJoin(lines, "");
}

std::string indented(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    absl::StrAppend(&result, "  ", text.substr(begin, end - begin));
    begin = end;
  }
  return result;
}

std::string compiledText(const DataflowGroup& group) {
  std::string text = compiler::printSchedule(group.compiled);
  if (text.starts_with("vectors 0\n")) text.erase(0, text.find('\n') + 1);
  return text;
}

void show(const Explained& explained) {
  const DataflowGroup& group = explained.group;
  std::cout << (explained.isChain() ? "CHAIN " : "GROUP ") << group.title << andMore(group.runs - 1) << "\n";
  std::cout << absl::StrFormat("as compiled: %.0f cycles simulated%s\n", group.cycles,
                               explained.isChain() ? ", one group after another" : "")
            << indented(compiledText(group));
  if (!explained.found()) {
    std::cout << "not searched: " << explained.reason << "\n\n";
    return;
  }
  const Answer& answer = *explained.answer;
  std::cout << absl::StrFormat(
      "best tree found: %s cycles by the analysis; gap within the space %.3g %%%s, to the bound "
      "of all trees %.3g %% (%s)\n",
      absl::StrFormat("%.1f", answer.best->cost.cycles), 100 * answer.gapInSpace(),
      answer.complete ? "" : " (the search was ended)", 100 * answer.gapToBound(), answer.bound.reason);
  if (explained.separate > 0)
    std::cout << absl::StrFormat("the groups by themselves, with their best trees: %s cycles by the analysis\n",
                                 absl::StrFormat("%.1f", explained.separate));
  std::cout << (explained.obstacle.empty()
                    ? "use: programs have this form; the compile searches the tiles of each product"
                    : absl::StrCat("use: reported only, ", explained.obstacle))
            << "\n"
            << statementsText(explained.problem()) << indented(treeText(*answer.best))
            << movementTable(answer.best->cost);
  for (const std::string& each : explained.problem().unlinked)
    std::cout << "read in another layout than it is written, so it passes through the outermost memory: " << each
              << "\n";
  std::cout << "\n";
}

std::string jsonOf(const Explained& explained) {
  const DataflowGroup& group = explained.group;
  std::string text = absl::StrFormat(R"({"kind":"%s","name":%s,"steps":[%s],"groups":%d,"simulated_cycles":%s)",
                                     explained.isChain() ? "chain" : "group", jsonString(group.title),
                                     absl::StrJoin(group.steps, ","), group.runs, figureText(group.cycles));
  if (!explained.isChain()) absl::StrAppend(&text, R"(,"compiled":)", jsonString(compiledText(group)));
  if (!explained.found()) return absl::StrCat(text, R"(,"reason":)", jsonString(explained.reason), "}");
  const Answer& answer = *explained.answer;
  absl::StrAppend(&text, R"(,"operators":[)",
                  absl::StrJoin(explained.problem().operators, ",",
                                [](std::string* out, const std::string& each) { *out += jsonString(each); }),
                  R"(],"tree":)", jsonString(treeText(*answer.best)), R"(,"cycles":)",
                  figureText(answer.best->cost.cycles), R"(,"energy_pj":)", figureText(answer.best->cost.energy_pj),
                  R"(,"complete":)", answer.complete ? "true" : "false", R"(,"gap_in_space":)",
                  figureText(answer.gapInSpace()), R"(,"gap_to_bound":)", figureText(answer.gapToBound()),
                  R"(,"bound":{"cycles":)", figureText(answer.bound.least.cycles), R"(,"limit":)",
                  jsonString(answer.bound.reason), R"(},)", levelsJson(answer.best->cost));
  if (explained.separate > 0) absl::StrAppend(&text, R"(,"separate_cycles":)", figureText(explained.separate));
  if (!explained.obstacle.empty()) absl::StrAppend(&text, R"(,"obstacle":)", jsonString(explained.obstacle));
  return text + "}";
}

/// Memories outermost first, then the units.
std::vector<TreeBand> bandsOf(const compiler::cost::Machine& machine) {
  std::vector<TreeBand> bands;
  for (auto memory = machine.memories.rbegin(); memory != machine.memories.rend(); ++memory) {
    std::vector<std::string> parts;
    if (memory->instances > 1) parts.push_back(absl::StrCat(memory->instances, " x"));
    if (memory->capacity_bytes > 0) parts.push_back(bytesText(memory->capacity_bytes));
    parts.push_back(absl::StrFormat("%.4g B/cycle", memory->read_bytes_per_cycle));
    bands.push_back({.level = memory->name, .figure = absl::StrJoin(parts, ", ")});
  }
  const auto unitText = [](std::string* out, const compiler::cost::Machine::Unit& unit) {
    absl::StrAppend(out, unit.count, " x ", unit.name);
  };
  bands.push_back({.level = "", .figure = absl::StrJoin(machine.units, ", ", unitText)});
  return bands;
}

absl::Status drawTrees(const std::string& path, const std::vector<Explained>& all,
                       const compiler::cost::Machine& machine) {
  std::vector<TreePicture> pictures;
  for (const Explained& each : all) {
    if (!each.found()) continue;
    pictures.push_back({.title = absl::StrFormat("%s: %.6g cycles, gap within the space %.3g %%%s", each.group.title,
                                                 each.answer->best->cost.cycles, 100 * each.answer->gapInSpace(),
                                                 each.obstacle.empty() ? "" : " (reported only)"),
                        .tree = each.answer->best->tree,
                        .operators = each.problem().operators});
  }
  return writeText(path, treeSvg(pictures, bandsOf(machine)));
}

}  // namespace

void DataflowExplanationFlags::addTo(CLI::App* command) {
  CLI::Option* flag = command->add_flag(
      "--dataflow", wanted,
      "for a described chip: the dataflow of each fused group, and the best one that a search finds, with its gap");
  command->add_option("--time", time, "with --dataflow: end the search of each group after this time")
      ->needs(flag)
      ->capture_default_str();
}

absl::Status explainDataflow(const CommandLine& line, const DataflowExplanationFlags& flags,
                             std::span<const uint8_t> artifact, const std::string& svg) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t microseconds, parseDuration(flags.time));
  compiler::ArtifactFile file;
  if (const compiler::RuntimeStatus status = compiler::ArtifactFile::fromMemory(artifact, &file); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat("not an artifact: ", status.message()));
  if (!compiler::simulator::SimulatedArtifact::isOne(file))
    return absl::InvalidArgumentError(
        "--dataflow explains programs of described chips; compile for one (tessera targets lists family SPATIAL)");
  TESSERA_ASSIGN_OR_RETURN(const auto opened, compiler::simulator::SimulatedArtifact::open(file));
  const v1::Plan& plan = opened->plan();
  const compiler::cost::Machine machine = compiler::simulator::nestedMachineOf(plan.target());
  TESSERA_ASSIGN_OR_RETURN(std::vector<DataflowGroup> groups, dataflowGroupsOf(*opened, machine));
  std::vector<Explained> all;
  ProgressView progress(line.quiet || line.json);
  for (DataflowGroup& group : groups) {
    v1::JobEvent event;
    event.mutable_progress()->set_phase("search");
    event.mutable_progress()->set_detail(absl::StrCat(all.size() + 1, " of ", groups.size()));
    progress.event(event);
    Explained& explained = all.emplace_back();
    explained.group = std::move(group);
    explainGroup(explained, machine, microseconds);
  }
  for (Explained& each : all)
    if (each.isChain()) each.separate = separateCycles(each, all, plan);
  progress.finish();
  if (line.json) {
    std::cout << absl::StrFormat(
                     R"({"chip":%s,"groups":[%s]})", jsonString(plan.target().name()),
                     absl::StrJoin(all, ",", [](std::string* out, const Explained& each) { *out += jsonOf(each); }))
              << "\n";
  } else {
    for (const Explained& each : all) show(each);
  }
  return svg.empty() ? absl::OkStatus() : drawTrees(svg, all, machine);
}

}  // namespace tessera::client
