// tessera mappings: the ways to map an operator to an instruction of a chip (AMOS). Sources, "the thesis" among them:
// clients/docs/design/references.md.

#include <algorithm>
#include <chrono>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/operator_flags.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "compiler/backends/spatial/lower.h"
#include "compiler/intrinsic/explain.h"
#include "compiler/intrinsic/layout.h"
#include "compiler/intrinsic/standard_operators.h"
#include "compiler/intrinsic/tiling_choice.h"
#include "compiler/target/element_text.h"
#include "compiler/target/instruction_sets.h"

namespace tessera::client {
namespace {

using namespace compiler::intrinsic;  // NOLINT: the command is this room's
using compiler::computeText;

struct MappingFlags {
  std::string target = "host";
  std::string instruction;
  OperatorFlags op;
  int explained = -1;
  bool explain = false;
};

/// The thesis's count for this operator and kind of instruction; 0: none stated.
size_t thesisCount(const StandardOperator& standard, const v1::Target& target, const v1::Intrinsic& intrinsic) {
  if (target.family() == v1::Target::NVPTX) return standard.thesis_count;
  return std::string(standard.name) == "C3D" ? thesisCountOfC3D(intrinsic.name()) : 0;
}

int tableOf(const CommandLine& line, const v1::Target& target, const v1::Intrinsic& intrinsic) {
  const auto instruction = nestOf(intrinsic);
  if (!instruction.ok()) return reportError(instruction.status(), line.json);
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> entries;
  bool deviates = false;
  for (const StandardOperator& standard : standardOperators()) {
    const Nest software = nestOf(standard);
    const auto begin = std::chrono::steady_clock::now();
    const Mappings written = enumerateMappings(software, *instruction);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    const Mappings any = enumerateMappings(software, *instruction, {.any_order = true});
    const size_t count = written.matchings.size(), thesis = thesisCount(standard, target, intrinsic);
    deviates = deviates || (thesis > 0 && thesis != count);
    rows.push_back({standard.name, standard.definition, absl::StrCat(written.points), absl::StrCat(count),
                    absl::StrCat(any.matchings.size()), thesis > 0 ? absl::StrCat(thesis) : "-",
                    absl::StrFormat("%.2f", ms)});
    entries.push_back(absl::StrFormat(
        R"({"operator":%s,"definition":%s,"points":%d,"mappings":%d,"any_order":%d,"thesis":%d,"ms":%.3f})",
        jsonString(standard.name), jsonString(standard.definition), written.points, count, any.matchings.size(), thesis,
        ms));
  }
  if (line.json) {
    std::cout << R"({"target":)" << jsonString(target.name()) << R"(,"instruction":)" << jsonString(intrinsic.name())
              << R"(,"operators":[)" << absl::StrJoin(entries, ",") << "]}\n";
    return kExitOk;
  }
  std::cout << target.name() << ": " << intrinsic.name() << ", " << computeText(intrinsic) << "\n"
            << table({"OP", "DEFINITION", "POINTS", "MAPPINGS", "ANY ORDER", "THESIS", "MS"}, rows)
            << "MAPPINGS: sources in the order written, as the thesis counts; ANY ORDER: exchanged sources too.\n";
  if (deviates) {
    std::cout
        << "The thesis names this engine's operation and defines neither it nor its loops: the count here follows\n"
           "from the definition above by the rule of admission that gives all of table 5.3.\n";
  }
  return kExitOk;
}

void printChoice(const Choice& choice, const v1::Target& target) {
  std::cout << explain(choice.software, choice.intrinsic, choice.matching, choice.mapping) << "layouts\n"
            << print(layoutsOf(choice.software, choice.intrinsic, choice.matching, choice.mapping)) << "padding\n"
            << print(paddingOf(choice.software, choice.intrinsic, choice.mapping, target)) << "price\n";
  std::vector<std::vector<std::string>> rows;
  for (size_t l = 0; l < choice.price.levels.size(); ++l) {
    const LevelCost& level = choice.price.levels[l];
    rows.push_back({level.name, absl::StrJoin(choice.tiling[l], "x"), absl::StrFormat("%.0f", level.loops),
                    absl::StrFormat("%.0f", level.cycles), absl::StrFormat("%.0f", level.in_cycles),
                    absl::StrFormat("%.0f", level.out_cycles)});
  }
  std::cout << table({"LEVEL", "BLOCKS", "LOOPS", "L", "R", "W"}, rows);
  const auto program = compiler::simulator::lower(choice, target);
  std::cout << (program.ok() ? print(*program) : absl::StrCat("no program: ", program.status().message(), "\n"));
}

int listOf(const CommandLine& line, const v1::Target& target, const v1::Intrinsic& intrinsic,
           const MappingFlags& flags) {
  const auto software = flags.op.nest();
  const auto instruction = nestOf(intrinsic);
  if (!software.ok()) return reportError(software.status(), line.json);
  if (!instruction.ok()) return reportError(instruction.status(), line.json);
  const Mappings mappings = enumerateMappings(*software, *instruction, {.any_order = true});
  std::vector<Choice> choices;
  std::string refused;
  for (const Matching& matching : mappings.matchings) {
    auto choice = tiled(mappings.software, intrinsic, matching, target);
    if (choice.ok()) {
      choices.push_back(*std::move(choice));
    } else {
      refused = std::string(choice.status().message());
    }
  }
  sortByCost(choices);
  if (flags.explain) {
    const size_t wanted = flags.explained < 0 ? 0 : static_cast<size_t>(flags.explained);
    if (wanted >= choices.size()) {
      return reportError(absl::NotFoundError(absl::StrCat("there is no mapping ", wanted, "; ", choices.size(),
                                                          " are found", refused.empty() ? "" : ", " + refused)),
                         line.json);
    }
    printChoice(choices[wanted], target);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> entries;
  for (const Choice& choice : choices) {
    const std::string text = mappingText(choice.software, *instruction, choice.matching);
    const double use = 100 * choice.mapping.utilization;
    entries.push_back(absl::StrFormat(R"({"mapping":%s,"calls":%d,"utilization":%.4f,"cycles":%.1f})", jsonString(text),
                                      choice.mapping.calls, choice.mapping.utilization, choice.price.cycles));
    rows.push_back({absl::StrCat(rows.size()), text, absl::StrCat(choice.mapping.calls),
                    absl::StrFormat("%.1f %%", use), absl::StrFormat("%.0f", choice.price.cycles)});
  }
  if (line.json) {
    std::cout << R"({"target":)" << jsonString(target.name()) << R"(,"instruction":)" << jsonString(intrinsic.name())
              << R"(,"operator":)" << jsonString(print(*software)) << R"(,"mappings":[)" << absl::StrJoin(entries, ",")
              << "]}\n";
    return kExitOk;
  }
  std::cout << print(*software) << "\non " << intrinsic.name() << ", " << computeText(intrinsic) << "\n";
  if (rows.empty()) {
    std::cout << "no mapping" << (refused.empty() ? "" : ": " + refused) << "\n";
    return kExitOk;
  }
  std::cout << table({"#", "MAPPING", "CALLS", "USE", "CYCLES"}, rows);
  return kExitOk;
}

int mappings(const CommandLine& line, const MappingFlags& flags) {
  const auto target = describedTarget(line, flags.target);
  if (!target.ok()) return reportError(target.status(), line.json);
  const auto intrinsic = instructionOf(*target, flags.instruction);
  if (!intrinsic.ok()) return reportError(intrinsic.status(), line.json);
  return flags.op.text.empty() ? tableOf(line, *target, *intrinsic) : listOf(line, *target, *intrinsic, flags);
}

}  // namespace

void addMappingsCommand(CommandLine& line) {
  CLI::App* command = line.add("mappings", "Count and explain the mappings of operators to an instruction of a chip");
  auto flags = std::make_shared<MappingFlags>();
  command->add_option("--target", flags->target, "built-in or registered name, host, or a description's file")
      ->capture_default_str();
  command->add_option(
      "--instruction", flags->instruction,
      "instruction of the target (see: tessera target show); default: the first multiply-add with the most iterations");
  auto* op = flags->op.addTo(command, "list the mappings of one operator, lowest cost first: a name of the table");
  auto* explain = command
                      ->add_option("--explain", flags->explained,
                                   "show mapping number N of the list: matrices, virtual and physical form, addresses, "
                                   "tails, layouts, cost, and its program")
                      ->needs(op)
                      ->check(nonNegative())
                      ->type_name("N");
  command->footer(
      "Without --op: table 5.3 of the thesis for the target's instruction. compiler/intrinsic/README.md defines "
      "mappings\nand which of them count. Built-in targets need no server.");
  command->callback([&line, flags, explain] {
    flags->explain = explain->count() > 0;
    line.action = [&line, flags] { return mappings(line, *flags); };
  });
}

}  // namespace tessera::client
