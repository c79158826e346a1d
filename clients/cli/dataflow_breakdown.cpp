#include "clients/cli/dataflow_breakdown.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/output.h"

namespace tessera::client {
namespace {

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

}  // namespace

std::string figureText(double value) { return absl::StrFormat("%.15g", value); }

std::string levelsJson(const compiler::cost::DataflowCost& cost) {
  return absl::StrCat(
      "\"levels\":[",
      absl::StrJoin(cost.levels, ",",
                    [](std::string* out, const compiler::cost::LevelCost& level) { *out += levelJson(level); }),
      "]");
}

std::string movementTable(const compiler::cost::DataflowCost& cost) {
  std::vector<std::vector<std::string>> rows;
  for (auto level = cost.levels.rbegin(); level != cost.levels.rend(); ++level) {
    for (const compiler::cost::Traffic& each : level->tensors) {
      if (!isTouched(each)) continue;
      rows.push_back({level->name, each.tensor, figureText(each.read), figureText(each.fill), figureText(each.update),
                      figureText(each.drain), absl::StrCat(each.footprint), absl::StrCat(level->units)});
    }
  }
  return table({"LEVEL", "TENSOR", "READ", "FILL", "UPDATE", "DRAIN", "FOOTPRINT", "UNITS"}, std::move(rows));
}

std::string breakdownJson(const compiler::cost::Breakdown& breakdown) {
  return absl::StrFormat(
      R"("breakdown":{"operations_pj":%.15g,"levels":[%s]})", breakdown.operations_pj,
      absl::StrJoin(breakdown.levels, ",", [](std::string* out, const compiler::cost::LevelBreakdown& level) {
        absl::StrAppendFormat(out, R"({"level":%s,"energy_pj":%.15g,"read_cycles":%.15g,"write_cycles":%.15g})",
                              jsonString(level.name), level.energy_pj, level.read_cycles, level.write_cycles);
      }));
}

std::string breakdownTable(const compiler::cost::Breakdown& breakdown) {
  std::vector<std::vector<std::string>> rows;
  for (auto level = breakdown.levels.rbegin(); level != breakdown.levels.rend(); ++level)
    rows.push_back({level->name, absl::StrFormat("%.6g", level->energy_pj), absl::StrFormat("%.0f", level->read_cycles),
                    absl::StrFormat("%.0f", level->write_cycles)});
  rows.push_back({"operations", absl::StrFormat("%.6g", breakdown.operations_pj), "", ""});
  return table({"PART", "ENERGY PJ", "READ CYCLES", "WRITE CYCLES"}, std::move(rows));
}

}  // namespace tessera::client
