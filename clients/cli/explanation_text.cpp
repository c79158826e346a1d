#include "clients/cli/explanation_text.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/output.h"
#include "compiler/schedule/ambiguous_choices.h"
#include "compiler/schedule/summary.h"

namespace tessera::client {
namespace {

std::string megaflops(int64_t flops) { return absl::StrFormat("%.2f", static_cast<double>(flops) / 1e6); }

std::string ratio(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : absl::StrFormat("%.2f", static_cast<double>(part) / static_cast<double>(whole));
}

std::string dashed(const std::string& text) { return text.empty() ? "-" : text; }

/// The result type of each node, taken from its first outgoing edge.
std::map<int, std::string> resultTypes(const v1::GraphView& view) {
  std::map<int, std::string> types;
  for (const auto& edge : view.edges()) types.emplace(edge.from(), typeText(edge.tensor()));
  return types;
}

std::string operatorTable(const v1::GraphView& before) {
  struct Sum {
    int nodes = 0;
    int64_t flops = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto& node : before.nodes()) {
    Sum& sum = sums[node.op()];
    ++sum.nodes;
    sum.flops += node.flops();
    sum.bytes += node.bytes();
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.second.flops, -a.second.bytes, a.first) <
           std::tuple(-b.second.flops, -b.second.bytes, b.first);
  });
  std::vector<std::vector<std::string>> rows;
  for (const auto& [op, sum] : sorted) {
    rows.push_back({op, absl::StrCat(sum.nodes), megaflops(sum.flops), bytesText(sum.bytes)});
  }
  return table({"OPERATOR", "NODES", "MFLOP", "BYTES"}, rows);
}

std::string nodeTable(const v1::GraphView& before) {
  const std::map<int, std::string> types = resultTypes(before);
  std::vector<std::vector<std::string>> rows;
  for (const auto& node : before.nodes()) {
    const auto type = types.find(node.id());
    rows.push_back({absl::StrCat(node.id()), node.op(), megaflops(node.flops()), bytesText(node.bytes()),
                    type == types.end() ? "-" : type->second, node.name()});
  }
  return table({"#", "OPERATOR", "MFLOP", "BYTES", "RESULT", "NODE"}, rows);
}

std::string scheduleText(const v1::Workload& workload) {
  const std::string schedule = compiler::summarizeSchedule(workload.schedule());
  return workload.algorithm().empty() ? schedule : absl::StrCat(workload.algorithm(), " ", schedule);
}

std::string groupTable(const v1::Explanation& explanation) {
  const v1::Plan& plan = explanation.plan();
  std::vector<std::vector<std::string>> rows;
  for (const auto& node : explanation.after().nodes()) {
    const bool known = node.kernel() >= 0 && node.kernel() < plan.workloads_size();
    rows.push_back({absl::StrCat(node.id()), absl::StrCat(node.kernel()), megaflops(node.flops()),
                    bytesText(node.bytes()), ratio(node.flops(), node.bytes()), dashed(node.layout()),
                    known ? dashed(scheduleText(plan.workloads(node.kernel()))) : "-", node.op(), node.name()});
  }
  return table({"#", "KERNEL", "MFLOP", "BYTES", "FLOP/B", "LAYOUT", "SCHEDULE", "WHAT", "NODES"}, rows);
}

std::string layoutText(const v1::Explanation& explanation) {
  std::map<std::string, int> layouts;
  for (const auto& node : explanation.after().nodes()) {
    if (!node.layout().empty()) ++layouts[node.layout()];
  }
  const v1::GraphReport& report = explanation.plan().report();
  std::string text = absl::StrCat("layouts: ", report.layout_transforms(), " transforms of activations remain");
  if (report.layout_transforms_before() > 0) {
    absl::StrAppend(&text, " of ", report.layout_transforms_before());
  }
  for (const auto& [layout, groups] : layouts) {
    absl::StrAppend(&text, ", ", layout, " in ", groups, groups == 1 ? " group" : " groups");
  }
  return text + "\n";
}

/// Decisions that differ only in their place (equal layers of a network) share one row, unless `each` is set.
std::string decisionTable(const v1::GraphReport& report, bool each) {
  std::vector<std::vector<std::string>> rows;
  std::vector<int> places;                          // number of places for each row
  std::map<std::vector<std::string>, size_t> said;  // row without its place -> its index
  const auto cost = [](double value, const std::string& unit) {
    if (unit == "bytes") return bytesText(static_cast<int64_t>(value));
    return absl::StrFormat("%.4g %s", value, unit);
  };
  for (const auto& decision : report.decisions()) {
    const bool priced = decision.cost() != 0 || decision.alternative_cost() != 0;
    std::vector<std::string> row{decision.taken() ? "taken" : "declined",
                                 decision.kind(),
                                 priced ? cost(decision.cost(), decision.unit()) : "-",
                                 priced ? cost(decision.alternative_cost(), decision.unit()) : "-",
                                 "",
                                 decision.reason()};
    auto [at, fresh] = said.try_emplace(row, rows.size());
    if (!fresh && !each) {
      ++places[at->second];
      continue;
    }
    row[4] = decision.place();
    rows.push_back(std::move(row));
    places.push_back(1);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i][4] += andMore(places[i] - 1);
  }
  return table({"DECISION", "KIND", "COST", "INSTEAD OF", "WHERE", "WHY"}, rows);
}

/// For each fusion that was considered: the profit by equation 4.10 of the thesis (clients/docs/design/references.md),
/// next to the prediction that the decision used.
std::string fusionTable(const v1::GraphReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& decision : report.decisions()) {
    if (!decision.has_profit()) continue;
    std::vector<std::string> row = fusionCells(decision.profit());
    row.insert(row.begin(), decision.taken() ? "taken" : "declined");
    row.insert(row.end(), {decision.kind(), decision.place()});
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  std::vector<std::string> header = fusionHeader();
  header.insert(header.begin(), "FUSION");
  header.insert(header.end(), {"KIND", "WHERE"});
  return absl::StrCat("\nFUSIONS (limit by the chip's peak, and predicted cost)\n", table(header, rows));
}

std::string openChoiceTable(const v1::GraphReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::AmbiguousChoice& open : compiler::ambiguousChoices(report)) {
    std::vector<std::string> row = openChoiceCells(open);
    row.insert(row.begin() + 4, absl::StrFormat("%.1f", open.possible_gain_us()));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  std::vector<std::string> header = openChoiceHeader();
  header.insert(header.begin() + 4, "MAY GAIN us");
  return absl::StrCat("\nOPEN CHOICES (predicted costs too close to decide: `tessera tune` measures them)\n",
                      table(header, rows));
}

int64_t preparedBytes(const v1::Plan& plan) {
  int64_t bytes = 0;
  for (const v1::Buffer& buffer : plan.preparation().buffers())
    if (buffer.kind() == v1::Buffer::OUTPUT) bytes += buffer.size_bytes();
  return bytes;
}

std::string memoryText(const v1::Plan& plan) {
  const v1::GraphReport& report = plan.report();
  std::string weights = absl::StrCat("; weights ", bytesText(plan.weights_bytes()));
  if (const int64_t prepared = preparedBytes(plan); prepared > 0)
    absl::StrAppend(&weights, ", prepared weights ", bytesText(prepared), " (", plan.preparation().steps_size(),
                    " steps before the first run)");
  absl::StrAppend(&weights, "\n");
  if (report.sum_intermediate_bytes() == 0) return absl::StrCat("memory: no intermediates", weights);
  return absl::StrCat("memory: peak ", bytesText(plan.arena_bytes()), " for intermediates, ",
                      ratio(plan.arena_bytes(), report.peak_live_bytes()), "x the largest live set (",
                      bytesText(report.peak_live_bytes()), "), ",
                      ratio(plan.arena_bytes(), report.sum_intermediate_bytes()), "x the sum of all (",
                      bytesText(report.sum_intermediate_bytes()), ")", weights);
}

std::string variantTable(const v1::Plan& plan) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const v1::Plan& variant) {
    std::vector<std::string> bindings;
    for (const auto& dimension : variant.dimensions()) {
      bindings.push_back(dimensionText(dimension));
    }
    std::vector<std::string> inputs;
    for (const auto& input : variant.inputs()) inputs.push_back(absl::StrCat(input.name(), " ", typeText(input)));
    rows.push_back({dashed(absl::StrJoin(bindings, " ")), absl::StrCat(variant.steps_size()),
                    bytesText(variant.arena_bytes()), absl::StrJoin(inputs, ", ")});
  };
  add(plan);
  for (const v1::Plan& variant : plan.variants()) add(variant);
  return table({"SPECIALIZATION", "GROUPS", "PEAK MEMORY", "INPUTS"}, rows);
}

}  // namespace

std::vector<std::string> fusionHeader() {
  return {"INPUTS", "MB LESS", "MFLOP MORE", "LAUNCHES LESS", "AT MOST us", "FUSED us", "APART us"};
}

std::vector<std::string> fusionCells(const v1::FusionProfit& profit) {
  const auto priced = [](double us) { return us > 0 ? absl::StrFormat("%.1f", us) : std::string("-"); };
  return {profit.kind(),
          absl::StrFormat("%.3f", profit.saved_bytes() / 1e6),
          absl::StrFormat("%.2f", profit.repeated_flops() / 1e6),
          absl::StrCat(profit.saved_launches()),
          absl::StrFormat("%.1f", profit.profit_us()),
          priced(profit.fused_us()),
          priced(profit.separate_us())};
}

std::vector<std::string> openChoiceHeader() { return {"KIND", "CHOSEN", "COST us", "OTHER us", "OTHER", "WHERE"}; }

std::vector<std::string> openChoiceCells(const v1::AmbiguousChoice& open) {
  const v1::Choice& first = open.choices(0);
  const std::string more = andMore(open.choices_size() - 1);
  return {first.kind(),
          open.instead_of(),
          absl::StrFormat("%.1f", open.cost_us()),
          absl::StrFormat("%.1f", open.alternative_us()),
          first.choice(),
          absl::StrCat(first.place(), more)};
}

std::string explanationText(const v1::Explanation& explanation, bool all_nodes) {
  const v1::Plan& plan = explanation.plan();
  const v1::GraphReport& report = plan.report();
  std::string text = absl::StrCat("graph: ", report.nodes_before(), " nodes become ", plan.steps_size(),
                                  " groups, with ", plan.workloads_size(), " distinct kernels");
  absl::StrAppend(&text, plan.target().name().empty() ? "" : absl::StrCat(" for ", plan.target().name()), "\n");
  if (!explanation.before().nodes().empty()) {
    absl::StrAppend(&text, "\nBEFORE\n", all_nodes ? nodeTable(explanation.before()) : "",
                    operatorTable(explanation.before()));
  }
  text += "\nREWRITES\n";
  std::vector<std::vector<std::string>> rewrites;
  for (const auto& rewrite : report.rewrites()) {
    rewrites.push_back({rewrite.name(), absl::StrCat(rewrite.count())});
  }
  absl::StrAppend(&text, table({"REWRITE", "TIMES"}, rewrites), "\nAFTER\n", groupTable(explanation),
                  layoutText(explanation));
  if (!report.decisions().empty()) absl::StrAppend(&text, "\nDECISIONS\n", decisionTable(report, all_nodes));
  text += fusionTable(report);
  text += openChoiceTable(report);
  if (!plan.variants().empty()) {
    absl::StrAppend(&text, "\nSPECIALIZATIONS (the groups above are the first one's)\n", variantTable(plan));
  }
  return absl::StrCat(text, "\n", memoryText(plan));
}

}  // namespace tessera::client
