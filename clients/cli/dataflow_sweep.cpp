#include "clients/cli/dataflow_sweep.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/chip_sweep.h"
#include "clients/cli/drawing/chart.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/output.h"
#include "compiler/cost/dataflow.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using compiler::cost::Machine;
using compiler::dataflow_search::Value;

/// One problem on one variant.
struct SweptPrice {
  size_t point = 0, problem = 0;
  absl::Status status = absl::CancelledError("interrupted");
  Value value = {};
  std::vector<std::string> violations = {};
  // Of a search.
  std::string tree = {};
  bool complete = false;
  double gap_in_space = 0, gap_to_bound = 0;
};

absl::Status price(const DataflowSweep& sweep, const v1::Target& chip, const std::function<bool()>& interrupted,
                   SweptPrice& result) {
  const compiler::loopnest::Nest& nest = sweep.problems[result.problem];
  Machine machine = compiler::cost::machineOf(chip);
  machine.energy_pj_per_operation = sweep.operation_pj;
  if (sweep.tree) {
    TESSERA_ASSIGN_OR_RETURN(const auto cost, analyzeDataflow(nest, *sweep.tree, machine));
    result.value = compiler::dataflow_search::valueOf(cost);
    result.violations = cost.violations;
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(machine, searchedMachine(sweep.search, std::move(machine)));
  TESSERA_ASSIGN_OR_RETURN(const auto answer, findDataflow(sweep.search, nest, machine,
                                                           {.threads = 1, .interrupted = interrupted, .better = {}}));
  if (!answer.best) return noTreeError(answer);
  result.value = compiler::dataflow_search::valueOf(answer.best->cost);
  result.violations = answer.best->cost.violations;
  result.tree = treeText(*answer.best);
  result.complete = answer.complete;
  result.gap_in_space = answer.gapInSpace();
  result.gap_to_bound = answer.gapToBound();
  return absl::OkStatus();
}

std::string priceJson(const DataflowSweep& sweep, const std::vector<double>& values, const SweptPrice& price) {
  std::string text = absl::StrCat("{\"values\":[", absl::StrJoin(values, ",", [](std::string* out, double value) {
                                    absl::StrAppendFormat(out, "%.15g", value);
                                  }));
  absl::StrAppend(&text, "],\"problem\":", jsonString(sweep.problems[price.problem].name));
  if (!price.status.ok())
    return absl::StrCat(text, ",\"error\":", jsonString(std::string(price.status.message())), "}");
  absl::StrAppendFormat(&text, R"(,"cycles":%.15g,"energy_pj":%.15g,"bytes":%.15g,"violations":[%s])",
                        price.value.cycles, price.value.energy_pj, price.value.bytes,
                        absl::StrJoin(price.violations, ",",
                                      [](std::string* out, const std::string& each) { *out += jsonString(each); }));
  if (!price.tree.empty())
    absl::StrAppendFormat(&text, R"(,"complete":%s,"gap_in_space":%.15g,"gap_to_bound":%.15g,"tree":%s)",
                          price.complete ? "true" : "false", price.gap_in_space, price.gap_to_bound,
                          jsonString(price.tree));
  return text + "}";
}

std::string noteOf(const SweptPrice& price) {
  if (!price.status.ok()) return std::string(price.status.message());
  return price.violations.empty() ? "" : absl::StrCat("exceeded: ", absl::StrJoin(price.violations, "; "));
}

void showTable(const DataflowSweep& sweep, const std::vector<SweptParameter>& parameters,
               const std::vector<std::vector<double>>& points, const std::vector<SweptPrice>& prices) {
  std::vector<std::string> headings;
  for (const SweptParameter& parameter : parameters) headings.push_back(parameter.name);
  const bool several = sweep.problems.size() > 1, searched = !sweep.tree;
  if (several) headings.emplace_back("PROBLEM");
  headings.insert(headings.end(), {"CYCLES", "ENERGY PJ", "BYTES"});
  if (searched) headings.insert(headings.end(), {"GAP IN SPACE", "GAP TO BOUND"});
  headings.emplace_back("NOTE");
  std::vector<std::vector<std::string>> rows;
  for (const SweptPrice& price : prices) {
    std::vector<std::string>& row = rows.emplace_back();
    for (size_t p = 0; p < parameters.size(); ++p) row.push_back(sweptValueText(parameters[p], points[price.point][p]));
    if (several) row.push_back(sweep.problems[price.problem].name);
    const auto figure = [&](const std::string& text) { row.push_back(price.status.ok() ? text : "-"); };
    figure(absl::StrFormat("%.0f", price.value.cycles));
    figure(absl::StrFormat("%.6g", price.value.energy_pj));
    figure(absl::StrFormat("%.0f", price.value.bytes));
    if (searched) {
      figure(absl::StrFormat("%.2f %%%s", 100 * price.gap_in_space, price.complete ? "" : " (ended)"));
      figure(absl::StrFormat("%.2f %%", 100 * price.gap_to_bound));
    }
    row.push_back(noteOf(price));
  }
  std::cout << table(headings, std::move(rows));
}

/// The score over the values of the first parameter; one line for each combination of the others and each problem.
std::string pictureOf(const DataflowSweep& sweep, const std::vector<SweptParameter>& parameters,
                      const std::vector<std::vector<double>>& points, const std::vector<SweptPrice>& prices) {
  CategoryChart chart{.title = absl::StrCat(sweep.chip.name(), ": ", sweep.text),
                      .x_axis = parameters[0].name,
                      .y_axis = sweep.tree ? "cycles" : sweep.search.objective,
                      .categories = {},
                      .lines = {}};
  for (const double value : parameters[0].values) chart.categories.push_back(sweptValueText(parameters[0], value));
  const size_t lines = points.size() / parameters[0].values.size();
  for (const SweptPrice& price : prices) {
    const size_t line = price.point % lines * sweep.problems.size() + price.problem;
    if (chart.lines.size() <= line) chart.lines.resize(line + 1);
    std::vector<std::string> name;
    if (sweep.problems.size() > 1) name.push_back(sweep.problems[price.problem].name);
    for (size_t p = 1; p < parameters.size(); ++p)
      name.push_back(absl::StrCat(parameters[p].name, " ", sweptValueText(parameters[p], points[price.point][p])));
    chart.lines[line].name = name.empty() ? sweep.problems[0].name : absl::StrJoin(name, ", ");
    const size_t category = price.point / lines;
    if (price.status.ok())
      chart.lines[line].points.emplace_back(static_cast<double>(category),
                                            scoreOf(price.value, objectiveOf(sweep.search)));
  }
  return categorySvg(chart);
}

}  // namespace

absl::Status sweepDataflow(const CommandLine& line, const DataflowSweep& sweep) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<SweptParameter> parameters, parseSweep(sweep.text, sweep.chip));
  const std::vector<std::vector<double>> points = sweepPoints(parameters);
  // All variants are made before the first search, so that a faulty one is reported at once.
  std::vector<v1::Target> chips;
  for (const std::vector<double>& values : points) {
    TESSERA_ASSIGN_OR_RETURN(v1::Target chip, chipAt(sweep.chip, parameters, values));
    chips.push_back(std::move(chip));
  }
  if (!sweep.tree)
    TESSERA_RETURN_IF_ERROR(searchedMachine(sweep.search, compiler::cost::machineOf(chips.front())).status());
  std::vector<SweptPrice> prices;
  for (size_t point = 0; point < points.size(); ++point)
    for (size_t problem = 0; problem < sweep.problems.size(); ++problem)
      prices.emplace_back(SweptPrice{.point = point, .problem = problem});
  std::atomic<bool> interrupted = false;
  InterruptWatch interrupts;
  interrupts.jobMayExist();
  interrupts.setCancelAction([&] { interrupted = true; });
  std::atomic<size_t> next = 0, done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < prices.size() && !interrupted; i = next++) {
      prices[i].status = price(sweep, chips[prices[i].point], [&] { return interrupted.load(); }, prices[i]);
      if (!line.quiet) std::cerr << absl::StrFormat("sweep: %d of %d\n", ++done, prices.size());
    }
  };
  std::vector<std::thread> threads;
  const size_t most = std::max(1U, std::thread::hardware_concurrency());
  for (size_t thread = 1; thread < std::min(most, prices.size()); ++thread) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (std::ranges::none_of(prices, [](const SweptPrice& each) { return each.status.ok(); }))
    return absl::Status(
        prices.front().status.code(),
        absl::StrCat("no variant of the chip has a price; the first one: ", prices.front().status.message()));
  if (line.json) {
    std::cout << absl::StrFormat(
        "{\"chip\":%s,\"parameters\":[%s],\"points\":[%s]}\n", jsonString(sweep.chip.name()),
        absl::StrJoin(parameters, ",",
                      [](std::string* out, const SweptParameter& each) { *out += jsonString(each.name); }),
        absl::StrJoin(prices, ",", [&](std::string* out, const SweptPrice& each) {
          *out += priceJson(sweep, points[each.point], each);
        }));
  } else {
    showTable(sweep, parameters, points, prices);
  }
  if (sweep.picture.empty()) return absl::OkStatus();
  return writeText(sweep.picture, pictureOf(sweep, parameters, points, prices));
}

}  // namespace tessera::client
