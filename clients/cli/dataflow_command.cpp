// tessera dataflow: prices a tile tree of several operators on a described chip.

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/dataflow_breakdown.h"
#include "clients/cli/dataflow_search.h"
#include "clients/cli/dataflow_sweep.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "clients/cpp/local_file.h"
#include "compiler/cost/dataflow.h"
#include "compiler/cost/simulate/simulate.h"
#include "compiler/import/expression/nest_of.h"
#include "compiler/schedule/text.h"

namespace tessera::client {
namespace {

using compiler::cost::DataflowCost;

struct DataflowFlags {
  std::string chip, tree, sweep, sweep_out;
  std::vector<std::string> problems;
  double operation_pj = 0;
  DataflowOutput output;
  DataflowSearchFlags search;
};

absl::StatusOr<std::string> readProblemText(const std::string& flag, const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{1} << 20;
  std::optional<std::string> text = readSmallFile(path, kMaxBytes);
  if (!text) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, ": cannot be read; accepted is a text file of at most 1 MiB"));
  }
  return *std::move(text);
}

std::string costJson(const std::string& chip, const DataflowCost& cost, const compiler::cost::Machine& machine) {
  return absl::StrFormat(
      R"({"chip":%s,"cycles":%s,"compute_cycles":%s,"energy_pj":%s,"operations":%s,"units":%d,%s,%s,"violations":[%s]})",
      jsonString(chip), figureText(cost.cycles), figureText(cost.compute_cycles), figureText(cost.energy_pj),
      figureText(cost.operations), cost.units, levelsJson(cost), breakdownJson(breakdownOf(cost, machine)),
      absl::StrJoin(cost.violations, ",", [](std::string* out, const std::string& text) { *out += jsonString(text); }));
}

void showCost(const DataflowCost& cost) {
  std::cout << absl::StrFormat("%s cycles (%s without bandwidths), %s pJ, %s operations on %d units\n",
                               figureText(cost.cycles), figureText(cost.compute_cycles), figureText(cost.energy_pj),
                               figureText(cost.operations), cost.units);
  std::cout << movementTable(cost);
  for (const std::string& violation : cost.violations) std::cout << "exceeded: " << violation << "\n";
}

/// Flags that exclude each other.
absl::Status checkFlags(const DataflowFlags& flags) {
  if (flags.sweep.empty()) {
    if (flags.problems.size() > 1)
      return absl::InvalidArgumentError("--problem is given more than once; several problems need --sweep");
    if (!flags.sweep_out.empty()) return absl::InvalidArgumentError("--sweep-out needs --sweep");
  } else {
    const auto refused = [](const char* flag, const char* remedy) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " does not go with --sweep; ", remedy));
    };
    if (flags.output.simulates) return refused("--simulate", "use --tree with a chip file of each variant");
    if (flags.output.breaks_down) return refused("--breakdown", "use --tree with a chip file of each variant");
    if (!flags.search.front.empty()) return refused("--front", "use --search with a chip file of each variant");
    if (!flags.search.tree_out.empty()) return refused("--tree-out", "--json prints the tree of each variant");
  }
  if (flags.search.isUsed() && !flags.tree.empty())
    return absl::InvalidArgumentError("--tree does not go with --search or --baseline, which find a tree");
  if (!flags.search.isUsed() && flags.tree.empty())
    return absl::InvalidArgumentError("--tree is missing; --search and --baseline find a tree");
  return absl::OkStatus();
}

absl::Status priceTree(const CommandLine& line, const DataflowFlags& flags) {
  TESSERA_RETURN_IF_ERROR(checkFlags(flags));
  TESSERA_ASSIGN_OR_RETURN(v1::Target target, describedTarget(line, flags.chip));
  std::vector<compiler::loopnest::Nest> problems;
  for (const std::string& path : flags.problems) {
    TESSERA_ASSIGN_OR_RETURN(const std::string problem, readProblemText("--problem", path));
    TESSERA_ASSIGN_OR_RETURN(const auto program, compiler::expression::parse(problem));
    TESSERA_ASSIGN_OR_RETURN(compiler::loopnest::Nest nest,
                             nestOf(program, std::filesystem::path(path).stem().string()));
    problems.push_back(std::move(nest));
  }
  std::optional<v1::Schedule> tree;
  if (!flags.tree.empty()) {
    TESSERA_ASSIGN_OR_RETURN(const std::string text, readProblemText("--tree", flags.tree));
    TESSERA_ASSIGN_OR_RETURN(tree, compiler::parseSchedule(text));
  }
  if (!flags.sweep.empty())
    return sweepDataflow(line, {.text = flags.sweep,
                                .picture = flags.sweep_out,
                                .chip = std::move(target),
                                .problems = std::move(problems),
                                .tree = std::move(tree),
                                .search = flags.search,
                                .operation_pj = flags.operation_pj});
  const compiler::loopnest::Nest& nest = problems.front();
  compiler::cost::Machine machine = compiler::cost::machineOf(target);
  machine.energy_pj_per_operation = flags.operation_pj;
  if (!tree) return searchDataflow(line, flags.search, target.name(), nest, std::move(machine), flags.output);
  TESSERA_ASSIGN_OR_RETURN(const DataflowCost cost, flags.output.simulates ? simulateDataflow(nest, *tree, machine)
                                                                           : analyzeDataflow(nest, *tree, machine));
  if (line.json) {
    std::cout << costJson(target.name(), cost, machine) << "\n";
  } else {
    showCost(cost);
    if (flags.output.breaks_down) std::cout << breakdownTable(breakdownOf(cost, machine));
  }
  return absl::OkStatus();
}

}  // namespace

void addDataflowCommand(CommandLine& line) {
  CLI::App* command = line.add("dataflow", "Price a tile tree of several operators on a described chip");
  auto flags = std::make_shared<DataflowFlags>();
  command->add_option("--chip", flags->chip, "built-in target, or a file with a target description")->required();
  command
      ->add_option("--problem", flags->problems,
                   "file with tensor expressions (.te); each statement is a nest; may be repeated with --sweep")
      ->required();
  command->add_option("--tree", flags->tree, "file with the tile tree");
  command->add_option("--operation-energy", flags->operation_pj, "energy of one operation in pJ")
      ->check(nonNegative())
      ->capture_default_str();
  command->add_flag("--simulate", flags->output.simulates,
                    "execute the tree step by step instead of analysing it; for small problems");
  command->add_flag("--breakdown", flags->output.breaks_down,
                    "also print the energy of each level and how long its ports are busy; part of --json");
  command->add_option(
      "--sweep", flags->sweep,
      "price variants of the chip: \"L1.capacity=1M..16M, core.count=1,2,4\"; A..B doubles, A..B+STEP adds");
  command->add_option("--sweep-out", flags->sweep_out, "draw the sweep (SVG)");
  flags->search.addTo(command);
  command->footer(
      "Prints cycles, energy, and for each memory level and tensor the words read, filled, updated and drained, the\n"
      "footprint, and the instances in use. The Dataflows page documents problem, tree and figures, with examples.\n"
      "--search finds the best tree of a space and proves how far it is from the optimum: page Dataflow search.\n"
      "Built-in targets and files need no server.");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      const absl::Status status = priceTree(line, *flags);
      return status.ok() ? kExitOk : reportError(status, line.json);
    };
  });
}

}  // namespace tessera::client
