#include "clients/cli/timeline.h"

#include "absl/strings/str_cat.h"
#include "clients/cli/output.h"

namespace tessera::client {

Gantt ganttOf(const std::string& job, const std::vector<Span>& spans) {
  Gantt gantt;
  gantt.title = absl::StrCat("Job ", job);
  std::map<std::pair<std::string, int>, int> rows;
  for (const auto& [worker, lanes] : lanesOf(spans))
    for (int lane = 0; lane < lanes; ++lane) {
      rows[{worker, lane}] = static_cast<int>(gantt.lanes.size());
      gantt.lanes.push_back(lane == 0 ? worker : "");
    }
  const double start = startOf(spans);
  for (const Span& span : spans)
    gantt.bars.push_back(
        {rows[{span.worker, span.lane}], (span.from_us - start) / 1e6, (span.to_us - start) / 1e6, span.phase,
         absl::StrCat(span.phase, ", ", durationText((span.to_us - span.from_us) / 1000), ", task ", span.task,
                      ", attempt ", span.attempt, span.failure.empty() ? "" : absl::StrCat(": ", span.failure)),
         !span.failure.empty()});
  return gantt;
}

}  // namespace tessera::client
