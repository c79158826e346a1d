// tessera-space: prints static analysis of workloads, the sizes of their schedule spaces, and how many of a search's
// proposals are legal. Started by `tessera space`.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/static_analysis.h"
#include "compiler/driver/pipeline.h"
#include "compiler/search/legality.h"
#include "compiler/search/space_size.h"
#include "compiler/space/expression_analysis.h"
#include "compiler/space/operators.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"
#include "proto/messages/failure_class.h"
#include "proto/support/cli11.h"
#include "proto/support/printable.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::space {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string model, target = "host";
  std::vector<std::string> shapes;
  bool table = false, json = false;
  int refusals = 0;
};

std::string jsonString(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  std::string json;
  return google::protobuf::util::MessageToJsonString(value, &json).ok() ? json : "\"\"";
}

int failed(const Flags& flags, const absl::Status& status) {
  if (flags.json) {
    std::cout << "{\"error\":{\"message\":" << jsonString(std::string(status.message()))
              << "},\"exit_code\":" << kExitInvalid << "}\n";
    return kExitInvalid;
  }
  std::cerr << "tessera: " << printable(std::string(status.message()), true) << "\n";
  return kExitInvalid;
}

absl::StatusOr<v1::Target> targetNamed(const std::string& name) {
  if (name == "host") return detectHostTarget();
  const v1::Target* target = findBuiltinTarget(name);
  if (target == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("there is no built-in target '", name, "'; `tessera targets` lists them, or leave out --target"));
  return *target;
}

absl::StatusOr<PlanResult> planned(const std::string& model, const Flags& flags) {
  PlanRequest request;
  request.model_path = model;
  request.spec.set_name(fs::path(model).stem().string());
  for (const std::string& flag : flags.shapes) {
    const std::vector<std::string> parts = absl::StrSplit(flag, absl::MaxSplits('=', 1));
    v1::InputShape& shape = *request.spec.add_input_shapes();
    shape.set_name(parts[0]);
    const std::vector<std::string> extents =
        parts.size() == 2 ? std::vector<std::string>(absl::StrSplit(parts[1], 'x')) : std::vector<std::string>();
    for (const std::string& extent : extents) {
      int64_t value = 0;
      if (!absl::SimpleAtoi(extent, &value) || value < 1)
        return absl::InvalidArgumentError(absl::StrCat("--shape ", flag, ": write for example --shape x=1x3x224x224"));
      shape.add_shape(value);
    }
  }
  TESSERA_ASSIGN_OR_RETURN(auto target, targetNamed(flags.target));
  request.target = target;
  return plan(request, [](const v1::Progress&) {});
}

int sum(const std::vector<StaticAnalysis::Node>& nodes, bool reductions) {
  size_t loops = 0;
  for (const auto& node : nodes) loops += reductions ? node.reductions.size() : node.spatial.size();
  return static_cast<int>(loops);
}

double thesisSizeOf(const std::vector<StaticAnalysis::Node>& nodes) {
  double size = 0;
  for (const auto& node : nodes) size += search::thesisSize(node.spatial, node.reductions);
  return size;
}

void printNodes(const std::vector<StaticAnalysis::Node>& nodes) {
  for (size_t at = 0; at < nodes.size(); ++at) {
    const auto& node = nodes[at];
    std::cout << absl::StrFormat("    node %d: #sl %d, #rl %d, stc %s, rtc %s, order %s, #in %d, #out %d, #cs %d\n", at,
                                 node.spatial.size(), node.reductions.size(), absl::StrJoin(node.spatial, "x"),
                                 node.reductions.empty() ? "-" : absl::StrJoin(node.reductions, "x"), node.order,
                                 node.inputs, node.outputs, node.consumers);
  }
}

std::string nodesJson(const std::vector<StaticAnalysis::Node>& nodes) {
  return absl::StrCat("[",
                      absl::StrJoin(nodes, ",",
                                    [](std::string* out, const StaticAnalysis::Node& node) {
                                      absl::StrAppend(out, "{\"stc\":[", absl::StrJoin(node.spatial, ","),
                                                      "],\"rtc\":[", absl::StrJoin(node.reductions, ","),
                                                      "],\"order\":", jsonString(node.order),
                                                      ",\"inputs\":", node.inputs, ",\"outputs\":", node.outputs,
                                                      ",\"consumers\":", node.consumers, "}");
                                    }),
                      "]");
}

/// Neighbours of a tree, how many of them code generation refuses, and the same after the legality filter.
struct Refusals {
  int all = 0, refused = 0, legal = 0, legal_refused = 0;
  std::map<std::string, int> reasons;  ///< for neighbours that passed the filter
};

Refusals countRefusals(v1::BuildUnit unit, const search::Extents& extents, int most) {
  Refusals count;
  const v1::Schedule start = unit.schedule();
  const search::Legality legality(start, extents, unit.registers());
  const auto refused = [&](const v1::Schedule& schedule, std::string* reason) {
    *unit.mutable_schedule() = schedule;
    const absl::Status status = checkSchedule(unit);
    if (reason != nullptr && !status.ok()) *reason = std::string(status.message());
    return !status.ok();
  };
  const auto evenly = [&](std::vector<search::Neighbour> neighbours, const auto& use) {
    // An even selection over the fixed order of neighbours, which groups them by kind.
    const size_t step = std::max<size_t>(1, neighbours.size() / static_cast<size_t>(most));
    for (size_t at = 0; at < neighbours.size(); at += step) use(neighbours[at].direction, neighbours[at].schedule);
  };
  evenly(search::neighboursOf(start), [&](const search::Direction&, const v1::Schedule& schedule) {
    ++count.all;
    count.refused += refused(schedule, nullptr) ? 1 : 0;
  });
  std::vector<search::Neighbour> legal = search::neighboursOf(start, legality.extents());
  std::erase_if(legal, [&](const search::Neighbour& each) { return !legality.refusal(each.schedule).empty(); });
  evenly(legal, [&](const search::Direction& direction, const v1::Schedule& schedule) {
    ++count.legal;
    std::string reason;
    if (!refused(schedule, &reason)) return;
    ++count.legal_refused;
    ++count.reasons[absl::StrCat(direction.type(), ": ", reason)];
  });
  return count;
}

std::string refusalsJson(const Refusals& count) {
  const std::string reasons = absl::StrJoin(count.reasons, ",", [](std::string* out, const auto& each) {
    absl::StrAppend(out, jsonString(each.first), ":", each.second);
  });
  return absl::StrCat("{\"neighbours\":", count.all, ",\"refused\":", count.refused, ",\"proposed\":", count.legal,
                      ",\"proposed_refused\":", count.legal_refused, ",\"reasons\":{", reasons, "}}");
}

int report(const Flags& flags) {
  auto result = planned(flags.model, flags);
  if (!result.ok()) return failed(flags, result.status());
  std::vector<std::string> workloads;
  int all = 0, refused = 0, legal = 0, legal_refused = 0;
  for (size_t at = 0; at < result->units.size(); ++at) {
    const v1::BuildUnit& unit = result->units[at];
    auto analysis = analyzeWorkload(unit);
    if (!analysis.ok()) return failed(flags, analysis.status());
    if (flags.json) {
      const v1::Workload& workload = result->plan.workloads(static_cast<int>(at));
      workloads.push_back(absl::StrCat(
          "{\"hash\":", jsonString(workload.hash()), ",\"summary\":", jsonString(workload.summary()),
          absl::StrFormat(",\"splits_log10\":%.3f,\"trees_log10\":%.3f,\"nodes\":", thesisSizeOf(analysis->nodes),
                          search::treeSize(unit.schedule(), analysis->extents)),
          nodesJson(analysis->nodes),
          flags.refusals == 0 ? ""
                              : ",\"refusals\":" + refusalsJson(countRefusals(unit, analysis->extents, flags.refusals)),
          "}"));
      continue;
    }
    std::cout << result->plan.workloads(static_cast<int>(at)).summary() << "\n"
              << absl::StrFormat("  #sl/#rl %d/%d, #node %d; 10^%.1f schedules by the thesis's splits, 10^%.1f trees\n",
                                 sum(analysis->nodes, false), sum(analysis->nodes, true), analysis->nodes.size(),
                                 thesisSizeOf(analysis->nodes), search::treeSize(unit.schedule(), analysis->extents));
    printNodes(analysis->nodes);
    if (flags.refusals == 0) continue;
    const Refusals count = countRefusals(unit, analysis->extents, flags.refusals);
    std::cout << absl::StrFormat("    neighbours refused: %d of %d as they are, %d of %d that are proposed\n",
                                 count.refused, count.all, count.legal_refused, count.legal);
    for (const auto& [reason, times] : count.reasons) std::cout << "      " << times << " x " << reason << "\n";
    all += count.all;
    refused += count.refused;
    legal += count.legal;
    legal_refused += count.legal_refused;
  }
  if (flags.json) std::cout << "{\"workloads\":[" << absl::StrJoin(workloads, ",") << "]}\n";
  if (all > 0 && legal > 0)
    std::cout << absl::StrFormat("refused: %.0f %% of %d neighbours as they are, %.0f %% of %d that are proposed\n",
                                 100.0 * refused / all, all, 100.0 * legal_refused / legal, legal);
  return kExitOk;
}

/// Table 4.2: each operator, with this compiler's figures and the thesis's.
int table(const Flags& flags) {
  const fs::path folder = fs::temp_directory_path() / absl::StrCat("tessera-space-", getpid());
  fs::create_directories(folder);
  if (!flags.json)
    std::cout << absl::StrFormat("%-4s %-36s %-8s %-8s %6s %7s %10s %10s  %s\n", "", "operator", "#sl/#rl", "thesis",
                                 "#node", "thesis", "splits", "trees", "stc; rtc of the last node (#in #out #cs)");
  double least = HUGE_VAL, most = -HUGE_VAL;
  int code = kExitOk;
  std::vector<std::string> entries;
  for (const Operator& each : operators()) {
    const std::string path = (folder / absl::StrCat(each.name, ".te")).string();
    std::ofstream(path) << each.text;
    auto nodes = nodesOfExpression(each.text);
    auto result = planned(path, flags);
    if (!nodes.ok() || !result.ok()) {
      code = failed(flags, nodes.ok() ? result.status() : nodes.status());
      break;
    }
    double trees = 0;
    for (const v1::BuildUnit& unit : result->units) {
      auto analysis = analyzeWorkload(unit);
      if (analysis.ok()) trees += search::treeSize(unit.schedule(), analysis->extents);
    }
    const auto& last = nodes->back();
    const double splits = thesisSizeOf(*nodes);
    least = std::min(least, trees);
    most = std::max(most, trees);
    if (flags.json) {
      entries.push_back(absl::StrCat(
          "{\"name\":", jsonString(std::string(each.name)), ",\"what\":", jsonString(std::string(each.what)),
          absl::StrFormat(",\"splits_log10\":%.3f,\"trees_log10\":%.3f,\"nodes\":", splits, trees), nodesJson(*nodes),
          "}"));
      continue;
    }
    std::cout << absl::StrFormat(
        "%-4s %-36s %-8s %-8s %6d %7s %10s %10s  %s; %s (%d %d %d)\n", each.name, each.what,
        absl::StrCat(sum(*nodes, false), "/", sum(*nodes, true)),
        each.nodes == 0 ? "-" : absl::StrCat(each.spatial, "/", each.reductions), nodes->size(),
        each.nodes == 0 ? "-" : absl::StrCat(each.nodes), absl::StrFormat("10^%.1f", splits),
        absl::StrFormat("10^%.1f", trees), absl::StrJoin(last.spatial, "x"),
        last.reductions.empty() ? "-" : absl::StrJoin(last.reductions, "x"), last.inputs, last.outputs, last.consumers);
  }
  fs::remove_all(folder);
  if (code == kExitOk && flags.json) {
    std::cout << "{\"operators\":[" << absl::StrJoin(entries, ",") << "]}\n";
  } else if (code == kExitOk)
    std::cout << absl::StrFormat(
        "trees: 10^%.1f to 10^%.1f around the defaults for %s; the thesis reports 3.9 x 10^9 to 2.4 x 10^12 on GPUs\n",
        least, most, flags.target);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app{"What there is to know of workloads before schedules are searched, and how many schedules there are",
               "tessera space"};
  Flags flags;
  app.add_option("MODEL", flags.model, "ONNX, MLIR text or a tensor expression (.te)")->check(CLI::ExistingFile);
  app.add_flag("--table", flags.table, "the operators of the thesis's table 4.2 instead of a model");
  app.add_option("--shape", flags.shapes, "name=1x3x224x224; may be repeated");
  app.add_option("--target", flags.target, "a built-in target, or host")->capture_default_str();
  app.add_flag("--json", flags.json, "print JSON for scripts");
  app.add_option("--refusals", flags.refusals,
                 "of each workload, check so many neighbours of its default: how many code generation refuses")
      ->check(CLI::Range(0, 1'000'000));
  app.footer(
      "#sl and #rl are the numbers of parallel loops and of loops that sum, stc and rtc their extents, #node the "
      "tensor\n"
      "operations, #in and #out their tensors, #cs who reads them (FlexTensor; thesis 4.3.1).");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (flags.table == !flags.model.empty()) {
    std::cerr << "tessera space: name a MODEL, or --table\n";
    return kExitUsage;
  }
  return flags.table ? table(flags) : report(flags);
}

}  // namespace
}  // namespace tessera::compiler::space

int main(int argc, char** argv) { return tessera::compiler::space::run(argc, argv); }
