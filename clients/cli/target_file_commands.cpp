// tessera target [check | show | diff | measure]: descriptions as files; most need no server.

#include <google/protobuf/text_format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "clients/cli/target_measuring.h"
#include "compiler/target/chip.h"
#include "compiler/target/difference.h"
#include "compiler/target/element_text.h"
#include "compiler/target/hierarchy.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/positions.h"
#include "compiler/target/target.h"

namespace tessera::client {
namespace {

int check(const CommandLine& line, const std::string& path) {
  const auto text = readTargetText(path);
  if (!text.ok()) return reportError(text.status(), line.json);
  const auto target = compiler::parseTargetWithPositions(*text);
  if (!target.ok()) return reportError(target.status(), line.json);
  const std::vector<v1::TargetProblem> problems = compiler::validateTarget(target->target);
  std::vector<std::string> entries;
  for (const v1::TargetProblem& problem : problems) {
    const auto place = target->at(problem.field());
    entries.push_back(absl::StrFormat(R"({"line":%d,"column":%d,"field":%s,"message":%s})", place.line, place.column,
                                      jsonString(problem.field()), jsonString(problem.message())));
    if (line.json) continue;
    std::cerr << path << ":" << place.line << ":" << place.column << ": " << problem.field() << ": "
              << problem.message() << "\n";
  }
  const std::string hash = compiler::targetHash(target->target);
  if (line.json) {
    std::cout << R"({"problems":[)" << absl::StrJoin(entries, ",") << R"(],"hash":")" << hash << "\"}\n";
  } else if (problems.empty()) {
    std::cout << "valid; " << compiler::instructionsOf(target->target).size() << " instructions; hash " << hash << "\n";
  }
  return problems.empty() ? kExitOk : kExitInvalid;
}

/// Formats lines as comments, so that the output remains a valid description.
std::string commented(absl::string_view text) {
  return "# " + absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "\n# "}}) + "\n";
}

/// Numbers of units and of instances of levels, which the description states for one parent each.
std::string hierarchyTables(const v1::Target& target) {
  const compiler::Hierarchy chip(target);
  std::vector<std::vector<std::string>> units, levels;
  for (const compiler::Hierarchy::Unit& unit : chip.units()) {
    units.push_back({unit.name, unit.parent < 0 ? "chip" : chip.units()[static_cast<size_t>(unit.parent)].name,
                     absl::StrCat(unit.instances), absl::StrCat(unit.operations_per_cycle)});
  }
  for (const compiler::Hierarchy::Level& level : chip.levels()) {
    levels.push_back({level.name, absl::StrCat(level.instances),
                      level.capacity_bytes > 0 ? absl::StrCat(level.capacity_bytes) : "-",
                      absl::StrCat(level.read_bytes_per_cycle), absl::StrCat(level.write_bytes_per_cycle),
                      level.read_pj_per_byte > 0 ? absl::StrCat(level.read_pj_per_byte) : "-"});
  }
  return commented(table({"UNIT", "IN", "ON THE CHIP", "F32 OPS/CYCLE"}, units)) + "\n" +
         commented(table({"LEVEL", "ON THE CHIP", "BYTES", "READ B/CYCLE", "WRITE B/CYCLE", "READ PJ/B"}, levels));
}

int showDescribed(const CommandLine& line, const std::string& name) {
  auto target = describedTarget(line, name);
  if (!target.ok()) return reportError(target.status(), line.json);
  const std::vector<v1::Intrinsic> instructions = compiler::instructionsOf(*target);
  if (line.json) {
    *target->mutable_cost_parameters() = compiler::completedTarget(*target).cost_parameters();
    target->mutable_intrinsics()->Assign(instructions.begin(), instructions.end());
    std::cout << toJson(*target) << "\n";
    return kExitOk;
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(*target, &text);
  std::cout << text << "\n" << hierarchyTables(*target) << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const v1::Intrinsic& intrinsic : instructions) {
    const std::vector<std::string> asked = compiler::featuresToCheckAtRunTime(*target, intrinsic);
    rows.push_back({intrinsic.name(), compiler::computeText(intrinsic), absl::StrCat(intrinsic.latency_cycles()),
                    intrinsic.cycles_per_issue() > 0 ? absl::StrCat(intrinsic.cycles_per_issue()) : "-",
                    asked.empty() ? "" : absl::StrJoin(asked, " "), intrinsic.emit()});
  }
  if (!rows.empty())
    std::cout << commented(table({"INSTRUCTION", "COMPUTES", "LATENCY", "CYCLES", "ASK FOR", "EMIT"}, rows));
  rows.clear();
  for (const compiler::CostParameterText& price : compiler::costParametersOf(*target))
    rows.push_back({price.field, price.value, price.own ? "description" : "family"});
  std::cout << "\n" << commented(table({"PARAMETER", "VALUE", "FROM"}, rows));
  return kExitOk;
}

int diff(const CommandLine& line, const std::string& left, const std::string& right) {
  const auto ours = describedTarget(line, left), theirs = describedTarget(line, right);
  for (const auto* side : {&ours, &theirs}) {
    if (!side->ok()) return reportError(side->status(), line.json);
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> entries;
  for (const auto& difference : compiler::differencesOf(*ours, *theirs)) {
    rows.push_back({difference.field, difference.left.empty() ? "-" : difference.left,
                    difference.right.empty() ? "-" : difference.right});
    entries.push_back(absl::StrFormat(R"({"field":%s,"left":%s,"right":%s})", jsonString(difference.field),
                                      jsonString(difference.left), jsonString(difference.right)));
  }
  if (line.json) {
    std::cout << R"({"differences":[)" << absl::StrJoin(entries, ",") << "]}\n";
  } else if (rows.empty()) {
    std::cout << "no difference\n";
  } else {
    std::cout << table({"FIELD", left, right}, rows);
  }
  return kExitOk;
}

}  // namespace

void addTargetFileCommands(CommandLine& line) {
  CLI::App* command = line.add("target", "Check, show, compare or measure descriptions of chips");
  command->require_subcommand(1);
  auto first = std::make_shared<std::string>(), second = std::make_shared<std::string>();
  constexpr char kTarget[] = "built-in or registered name, host, or a description's file";
  CLI::App* checks =
      command->add_subcommand("check", "list all faults of a description file with line and column; needs no server");
  checks->add_option("FILE", *first, "text proto of tessera.v1.Target")->required();
  checks->callback([&line, first] { line.action = [&line, first] { return check(line, *first); }; });
  CLI::App* shows = command->add_subcommand(
      "show", "print a description, with the instructions of its sets and the costs of its family");
  shows->add_option("NAME", *first, kTarget)->required();
  shows->callback([&line, first] { line.action = [&line, first] { return showDescribed(line, *first); }; });
  CLI::App* diffs =
      command->add_subcommand("diff", "list the fields in which two descriptions differ; entries are matched by name");
  diffs->add_option("LEFT", *first, kTarget)->required();
  diffs->add_option("RIGHT", *second, kTarget)->required();
  diffs->callback(
      [&line, first, second] { line.action = [&line, first, second] { return diff(line, *first, *second); }; });
  for (CLI::App* inner : {checks, shows, diffs}) inner->fallthrough();
  addTargetMeasuring(line, *command);
  command->footer("Only names other than host and built-in targets need a server.");
}

}  // namespace tessera::client
