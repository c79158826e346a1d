#include "clients/cli/dataflow_breakdown.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/output.h"

namespace tessera::client {

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
