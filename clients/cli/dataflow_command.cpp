// tessera dataflow: prices a tile tree of several operators on a described chip.

#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/dataflow_search.h"
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
  std::string chip, problem, tree;
  double operation_pj = 0;
  bool simulates = false;
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

/// Words are whole numbers below 2^53; figures that are none keep 15 digits.
std::string figureText(double value) { return absl::StrFormat("%.15g", value); }

bool isTouched(const compiler::cost::Traffic& traffic) {
  return traffic.read + traffic.fill + traffic.update + traffic.drain > 0 || traffic.footprint > 0;
}

std::string trafficJson(const compiler::cost::Traffic& traffic) {
  return absl::StrFormat(R"({"tensor":%s,"read":%s,"fill":%s,"update":%s,"drain":%s,"footprint":%d,"word_bytes":%d})",
                         jsonString(traffic.tensor), figureText(traffic.read), figureText(traffic.fill),
                         figureText(traffic.update), figureText(traffic.drain), traffic.footprint, traffic.word_bytes);
}

std::string levelJson(const compiler::cost::LevelCost& level) {
  return absl::StrFormat(R"({"level":%s,"units":%d,"footprint":%d,"footprint_bytes":%d,"tensors":[%s]})",
                         jsonString(level.name), level.units, level.footprint, level.footprint_bytes,
                         absl::StrJoin(level.tensors, ",", [](std::string* out, const compiler::cost::Traffic& each) {
                           *out += trafficJson(each);
                         }));
}

std::string costJson(const std::string& chip, const DataflowCost& cost) {
  return absl::StrFormat(
      R"({"chip":%s,"cycles":%s,"compute_cycles":%s,"energy_pj":%s,"operations":%s,"units":%d,"levels":[%s],"violations":[%s]})",
      jsonString(chip), figureText(cost.cycles), figureText(cost.compute_cycles), figureText(cost.energy_pj),
      figureText(cost.operations), cost.units,
      absl::StrJoin(cost.levels, ",",
                    [](std::string* out, const compiler::cost::LevelCost& level) { *out += levelJson(level); }),
      absl::StrJoin(cost.violations, ",", [](std::string* out, const std::string& text) { *out += jsonString(text); }));
}

void showCost(const DataflowCost& cost) {
  std::cout << absl::StrFormat("%s cycles (%s without bandwidths), %s pJ, %s operations on %d units\n",
                               figureText(cost.cycles), figureText(cost.compute_cycles), figureText(cost.energy_pj),
                               figureText(cost.operations), cost.units);
  std::vector<std::vector<std::string>> rows;
  for (auto level = cost.levels.rbegin(); level != cost.levels.rend(); ++level) {
    for (const compiler::cost::Traffic& each : level->tensors) {
      if (!isTouched(each)) continue;
      rows.push_back({level->name, each.tensor, figureText(each.read), figureText(each.fill), figureText(each.update),
                      figureText(each.drain), absl::StrCat(each.footprint), absl::StrCat(level->units)});
    }
  }
  std::cout << table({"LEVEL", "TENSOR", "READ", "FILL", "UPDATE", "DRAIN", "FOOTPRINT", "UNITS"}, std::move(rows));
  for (const std::string& violation : cost.violations) std::cout << "exceeded: " << violation << "\n";
}

absl::Status priceTree(const CommandLine& line, const DataflowFlags& flags) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Target target, describedTarget(line, flags.chip));
  TESSERA_ASSIGN_OR_RETURN(const std::string problem, readProblemText("--problem", flags.problem));
  TESSERA_ASSIGN_OR_RETURN(const auto program, compiler::expression::parse(problem));
  TESSERA_ASSIGN_OR_RETURN(const compiler::loopnest::Nest nest,
                           nestOf(program, std::filesystem::path(flags.problem).stem().string()));
  compiler::cost::Machine machine = compiler::cost::machineOf(target);
  machine.energy_pj_per_operation = flags.operation_pj;
  if (flags.search.isUsed()) return searchDataflow(line, flags.search, target.name(), nest, std::move(machine));
  if (flags.tree.empty()) return absl::InvalidArgumentError("--tree is missing; --search and --baseline find a tree");
  TESSERA_ASSIGN_OR_RETURN(const std::string tree, readProblemText("--tree", flags.tree));
  TESSERA_ASSIGN_OR_RETURN(const v1::Schedule schedule, compiler::parseSchedule(tree));
  TESSERA_ASSIGN_OR_RETURN(const DataflowCost cost, flags.simulates ? simulateDataflow(nest, schedule, machine)
                                                                    : analyzeDataflow(nest, schedule, machine));
  if (line.json) {
    std::cout << costJson(target.name(), cost) << "\n";
  } else {
    showCost(cost);
  }
  return absl::OkStatus();
}

}  // namespace

void addDataflowCommand(CommandLine& line) {
  CLI::App* command = line.add("dataflow", "Price a tile tree of several operators on a described chip");
  auto flags = std::make_shared<DataflowFlags>();
  command->add_option("--chip", flags->chip, "built-in target, or a file with a target description")->required();
  command->add_option("--problem", flags->problem, "file with tensor expressions (.te); each statement is a nest")
      ->required();
  command->add_option("--tree", flags->tree, "file with the tile tree");
  command->add_option("--operation-energy", flags->operation_pj, "energy of one operation in pJ")
      ->check(nonNegative())
      ->capture_default_str();
  command->add_flag("--simulate", flags->simulates,
                    "execute the tree step by step instead of analysing it; for small problems");
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
