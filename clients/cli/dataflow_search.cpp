#include "clients/cli/dataflow_search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "clients/cli/dataflow_breakdown.h"
#include "clients/cli/drawing/chart.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "compiler/cost/simulate/simulate.h"
#include "compiler/dataflow_search/baselines.h"
#include "compiler/dataflow_search/evolution.h"
#include "compiler/dataflow_search/search.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using compiler::cost::Machine;
using SearchAnswer = compiler::dataflow_search::Answer;
using compiler::dataflow_search::Found;
using compiler::dataflow_search::leftOut;
using compiler::dataflow_search::Objective;
using compiler::loopnest::Nest;

const std::map<std::string, Objective>& objectives() {
  static const std::map<std::string, Objective> all = {{"cycles", Objective::kCycles},
                                                       {"energy", Objective::kEnergy},
                                                       {"edp", Objective::kEnergyDelay},
                                                       {"bytes", Objective::kBytes}};
  return all;
}

std::string numberText(double value) { return absl::StrFormat("%.15g", value); }

/// Lowers the capacities of levels.
absl::Status applyBudgets(const std::vector<std::string>& budgets, Machine& machine) {
  for (const std::string& budget : budgets) {
    const std::vector<std::string> parts = absl::StrSplit(budget, '=');
    const int level = machine.memoryNamed(parts[0]);
    int64_t bytes = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &bytes) || bytes < 1)
      return absl::InvalidArgumentError(
          absl::StrCat("--budget ", budget, ": accepted is LEVEL=BYTES with a whole number above 0"));
    if (level < 0)
      return absl::InvalidArgumentError(absl::StrCat(
          "--budget ", budget, ": the chip has no level '", parts[0],
          "'; accepted: ", absl::StrJoin(machine.memories, ", ", [](std::string* out, const Machine::Memory& memory) {
            *out += memory.name;
          })));
    int64_t& capacity = machine.memories[static_cast<size_t>(level)].capacity_bytes;
    capacity = capacity > 0 ? std::min(capacity, bytes) : bytes;
  }
  return absl::OkStatus();
}

std::string foundJson(const Found& found) {
  const auto value = compiler::dataflow_search::valueOf(found.cost);
  return absl::StrFormat(R"("cycles":%s,"energy_pj":%s,"bytes":%s,"violations":[%s],"tree":%s)",
                         numberText(value.cycles), numberText(value.energy_pj), numberText(value.bytes),
                         absl::StrJoin(found.cost.violations, ",",
                                       [](std::string* out, const std::string& text) { *out += jsonString(text); }),
                         jsonString(treeText(found)));
}

std::string answerJson(const std::string& chip, const DataflowSearchFlags& flags, const Nest& nest,
                       const Machine& machine, const SearchAnswer& answer,
                       const std::optional<absl::StatusOr<compiler::cost::DataflowCost>>& simulated) {
  std::string text = absl::StrFormat(R"({"chip":%s,"objective":%s)", jsonString(chip), jsonString(flags.objective));
  if (!flags.baseline.empty()) absl::StrAppend(&text, ",\"baseline\":", jsonString(flags.baseline));
  if (answer.best) {
    absl::StrAppend(&text, ",\"score\":", numberText(answer.best->score), ",", foundJson(*answer.best), ",",
                    breakdownJson(breakdownOf(answer.best->cost, machine)));
  }
  if (simulated && simulated->ok()) {
    absl::StrAppend(&text, ",\"simulated\":{\"cycles\":", numberText((*simulated)->cycles),
                    ",\"energy_pj\":", numberText((*simulated)->energy_pj), "}");
  } else if (simulated) {
    absl::StrAppend(&text, ",\"simulated\":{\"error\":", jsonString(std::string(simulated->status().message())), "}");
  }
  absl::StrAppendFormat(
      &text,
      R"(,"complete":%s,"gap_in_space":%s,"space_bound":%s,"gap_to_bound":%s,"bound":{"score":%s,"cycles":%s,"energy_pj":%s,"bytes":%s,"limit":%s})",
      answer.complete ? "true" : "false", numberText(answer.gapInSpace()), numberText(answer.space_bound),
      numberText(answer.gapToBound()), numberText(answer.bound.score), numberText(answer.bound.least.cycles),
      numberText(answer.bound.least.energy_pj), numberText(answer.bound.least.bytes), jsonString(answer.bound.reason));
  absl::StrAppend(&text, ",\"phases\":", answer.phases, ",\"expanded\":", answer.expanded,
                  ",\"measured\":", answer.measured, ",\"left_out\":[",
                  absl::StrJoin(leftOut(nest, machine), ",",
                                [](std::string* out, const std::string& each) { *out += jsonString(each); }),
                  "]");
  if (!answer.front.empty())
    absl::StrAppend(
        &text, ",\"front\":[",
        absl::StrJoin(answer.front, ",",
                      [](std::string* out, const Found& found) { absl::StrAppend(out, "{", foundJson(found), "}"); }),
        "]");
  return text + "}";
}

void showAnswer(const DataflowSearchFlags& flags, const Nest& nest, const Machine& machine,
                const SearchAnswer& answer) {
  if (!answer.best) return;
  const auto value = compiler::dataflow_search::valueOf(answer.best->cost);
  std::cout << treeText(*answer.best)
            << absl::StrFormat("%s cycles, %s pJ, %s bytes of %s\n", numberText(value.cycles),
                               numberText(value.energy_pj), numberText(value.bytes), machine.memories.back().name)
            << absl::StrFormat("gap within the space: %.4g %%%s\n", 100 * answer.gapInSpace(),
                               answer.complete ? " (searched completely)" : " (the search was ended)")
            << absl::StrFormat("gap to the bound of all trees: %.4g %% (%s %s at least; cycles limited by %s)\n",
                               100 * answer.gapToBound(), flags.objective, numberText(answer.bound.score),
                               answer.bound.reason);
  for (const std::string& violation : answer.best->cost.violations) std::cout << "exceeded: " << violation << "\n";
  std::cout << "the space leaves out:\n";
  for (const std::string& each : leftOut(nest, machine)) std::cout << "  " << each << "\n";
}

/// Energy and bytes over cycles, each divided by its least value.
std::string frontSvg(const std::string& title, const std::vector<Found>& front) {
  Curve energy{.name = "energy", .points = {}}, bytes{.name = "bytes of the outermost memory", .points = {}};
  const auto add = [](Curve& curve, double x, double y) {
    if (curve.points.empty() || y < curve.points.back().second) curve.points.emplace_back(x, y);
  };
  for (const Found& found : front) {
    const auto value = compiler::dataflow_search::valueOf(found.cost);
    add(energy, value.cycles, value.energy_pj);
    add(bytes, value.cycles, value.bytes);
  }
  for (Curve* curve : {&energy, &bytes}) {
    const double least = curve->points.empty() ? 1 : std::max(1e-300, curve->points.back().second);
    for (auto& point : curve->points) point.second /= least;
    if (!curve->points.empty() && !front.empty())
      curve->points.emplace_back(compiler::dataflow_search::valueOf(front.back().cost).cycles, 1.0);
  }
  return curveSvg(title, "cycles", "times the least", {energy, bytes});
}

/// The answer of the thesis's search, with the bound of all trees.
absl::StatusOr<SearchAnswer> evolved(const Nest& nest, const Machine& machine, uint64_t seed,
                                     const compiler::dataflow_search::Options& options) {
  compiler::dataflow_search::EvolutionOptions evolution;
  evolution.objective = options.objective;
  evolution.seed = seed;
  evolution.stopped = options.stopped;
  if (options.better) evolution.better = [&](const Found& found) { options.better(found, 0); };
  SearchAnswer answer;
  TESSERA_ASSIGN_OR_RETURN(answer.bound, lowerBound(nest, machine, options.objective));
  answer.obstacle = compiler::dataflow_search::tooLargeTile(nest, machine);
  if (!answer.obstacle.empty()) return answer;
  TESSERA_ASSIGN_OR_RETURN(auto found, searchByEvolution(nest, machine, evolution));
  if (!found.best.empty()) answer.best = std::move(found.best.front());
  answer.space_bound = answer.bound.score;
  answer.measured = found.priced;
  return answer;
}

}  // namespace

Objective objectiveOf(const DataflowSearchFlags& flags) { return objectives().at(flags.objective); }

std::string treeText(const Found& found) {
  std::string text = compiler::printSchedule(found.tree);
  if (text.starts_with("vectors 0\n")) text.erase(0, text.find('\n') + 1);
  return text;
}

absl::StatusOr<Machine> searchedMachine(const DataflowSearchFlags& flags, Machine machine) {
  machine = compiler::dataflow_search::withoutFinerUnits(std::move(machine));
  TESSERA_RETURN_IF_ERROR(applyBudgets(flags.budgets, machine));
  TESSERA_RETURN_IF_ERROR(parseDuration(flags.time).status());
  return machine;
}

absl::StatusOr<SearchAnswer> findDataflow(const DataflowSearchFlags& flags, const Nest& nest, const Machine& machine,
                                          const SearchControl& control) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t microseconds, parseDuration(flags.time));
  compiler::dataflow_search::Options options;
  options.objective = objectiveOf(flags);
  options.threads = control.threads;
  options.seed = flags.seed;
  options.front = !flags.front.empty();
  options.better = control.better;
  if (!flags.baseline.empty()) {
    TESSERA_ASSIGN_OR_RETURN(options.restriction, compiler::dataflow_search::restrictionOf(flags.baseline, nest));
  }
  const auto begin = std::chrono::steady_clock::now();
  auto end = begin + std::chrono::microseconds(microseconds);
  options.stopped = [&] { return control.interrupted() || std::chrono::steady_clock::now() > end; };
  if (flags.method == "evolution") return evolved(nest, machine, flags.seed, options);
  TESSERA_ASSIGN_OR_RETURN(SearchAnswer answer, searchExact(nest, machine, options));
  if (answer.best || !answer.complete || flags.baseline.empty()) return answer;
  // No tiles of the template fit: price the best of them and report what it exceeds.
  end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  options.restriction.ignore_limits = true;
  return searchExact(nest, machine, options);
}

absl::Status noTreeError(const SearchAnswer& answer) {
  if (!answer.obstacle.empty())
    return absl::FailedPreconditionError(absl::StrCat("no tree of the space fits the chip: ", answer.obstacle));
  return absl::FailedPreconditionError(
      answer.complete ? "no tree of the space fits the chip; --budget or a chip with a larger memory changes that"
                      : "the search ended before it found a tree that fits the chip; a longer --time may help");
}

void DataflowSearchFlags::addTo(CLI::App* command) {
  std::vector<std::string> names, accepted;
  for (const auto& [name, objective] : objectives()) accepted.push_back(name);
  for (const auto& each : compiler::dataflow_search::baselines()) names.push_back(each.name);
  command->add_flag("--search", search, "search the best tree instead of pricing one");
  command->add_option("--baseline", baseline, "price the best tree of a known dataflow")->check(CLI::IsMember(names));
  command->add_option("--method", method, "exact, or evolution: genetic with Monte Carlo tree search, no proof")
      ->check(CLI::IsMember({"exact", "evolution"}))
      ->capture_default_str();
  command->add_option("--objective", objective, "what to minimize")
      ->check(CLI::IsMember(accepted))
      ->capture_default_str();
  command->add_option("--budget", budgets, "LEVEL=BYTES: use at most so much of an instance of a level");
  command->add_option("--time", time, "end the search after this time")->capture_default_str();
  command->add_option("--seed", seed, "of --method evolution")->capture_default_str();
  command->add_option("--front", front,
                      "find every tree that no other one beats in cycles, energy and bytes at once; draw them (SVG)");
  command->add_option("--tree-out", tree_out, "write the best tree to a file");
}

absl::Status searchDataflow(const CommandLine& line, const DataflowSearchFlags& flags, const std::string& chip,
                            const Nest& nest, Machine machine, const DataflowOutput& output) {
  TESSERA_ASSIGN_OR_RETURN(machine, searchedMachine(flags, std::move(machine)));
  std::atomic<bool> interrupted = false;
  InterruptWatch interrupts;
  interrupts.jobMayExist();
  interrupts.setCancelAction([&] { interrupted = true; });
  ProgressView progress(line.quiet);
  const SearchControl control{.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
                              .interrupted = [&] { return interrupted.load(); },
                              .better =
                                  [&](const Found& found, double at_least) {
                                    v1::JobEvent event;
                                    event.mutable_progress()->set_phase("search");
                                    std::string text = absl::StrCat(flags.objective, " ", numberText(found.score));
                                    if (at_least > 0) absl::StrAppend(&text, ", at least ", numberText(at_least));
                                    event.mutable_progress()->set_detail(text);
                                    progress.event(event);
                                  }};
  TESSERA_ASSIGN_OR_RETURN(const SearchAnswer answer, findDataflow(flags, nest, machine, control));
  if (!answer.best) return noTreeError(answer);
  // A tree that is too large to be simulated is an answer all the same.
  std::optional<absl::StatusOr<compiler::cost::DataflowCost>> simulated;
  if (output.simulates) simulated = simulateDataflow(nest, answer.best->tree, machine);
  if (line.json) {
    std::cout << answerJson(chip, flags, nest, machine, answer, simulated) << "\n";
  } else {
    showAnswer(flags, nest, machine, answer);
    if (output.breaks_down) std::cout << breakdownTable(breakdownOf(answer.best->cost, machine));
    if (simulated)
      std::cout << (simulated->ok() ? absl::StrFormat("simulated: %s cycles, %s pJ\n", numberText((*simulated)->cycles),
                                                      numberText((*simulated)->energy_pj))
                                    : absl::StrCat("not simulated: ", simulated->status().message(), "\n"));
  }
  if (!flags.tree_out.empty()) TESSERA_RETURN_IF_ERROR(writeText(flags.tree_out, treeText(*answer.best)));
  if (!flags.front.empty())
    TESSERA_RETURN_IF_ERROR(writeText(flags.front, frontSvg(absl::StrCat(nest.name, " on ", chip), answer.front)));
  return absl::OkStatus();
}

}  // namespace tessera::client
