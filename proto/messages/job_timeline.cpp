#include "proto/messages/job_timeline.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

double endOf(const std::vector<Span>& spans) {
  double end = 0;
  for (const Span& span : spans) end = std::max(end, span.to_us);
  return end;
}

std::string jsonString(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  std::string json;
  return google::protobuf::util::MessageToJsonString(value, &json).ok() ? json : "\"\"";
}

}  // namespace

double startOf(const std::vector<Span>& spans) {
  double start = HUGE_VAL;
  for (const Span& span : spans) start = std::min(start, span.from_us);
  return spans.empty() ? 0 : start;
}

std::map<std::string, int> lanesOf(const std::vector<Span>& spans) {
  std::map<std::string, int> lanes;
  for (const Span& span : spans) lanes[span.worker] = std::max(lanes[span.worker], span.lane + 1);
  return lanes;
}

std::vector<Span> spansOf(const std::vector<v1::JobEvent>& events) {
  std::vector<Span> spans;
  for (const v1::JobEvent& event : events) {
    if (!event.has_attempt() || event.attempt().worker().empty()) continue;
    const v1::JobEvent::AttemptEnded& attempt = event.attempt();
    const auto end = static_cast<double>(event.time_us());
    spans.push_back({attempt.worker(), attempt.phase(), attempt.task_id(), attempt.attempt(),
                     end - 1000 * attempt.wall_ms(), end, attempt.has_failure() ? attempt.failure().message() : "", 0});
    if (attempt.has_failure() && spans.back().failure.empty()) spans.back().failure = "failed";
  }
  std::ranges::sort(spans, {}, [](const Span& span) { return std::tie(span.worker, span.from_us, span.task); });
  std::map<std::string, std::vector<double>> busy_until;
  for (Span& span : spans) {
    std::vector<double>& lanes = busy_until[span.worker];
    // Event times are when the server received the report, not when the work ended: ignore overlaps up to 500 us.
    const auto free = std::ranges::find_if(lanes, [&](double until) { return until <= span.from_us + 500; });
    span.lane = static_cast<int>(free - lanes.begin());
    if (free == lanes.end()) {
      lanes.push_back(span.to_us);
    } else {
      *free = span.to_us;
    }
  }
  return spans;
}

std::map<std::string, double> utilizationOf(const std::vector<Span>& spans) {
  const double whole = endOf(spans) - startOf(spans);
  const std::map<std::string, int> lanes = lanesOf(spans);
  std::map<std::string, double> busy;
  for (const Span& span : spans)
    if (whole > 0) busy[span.worker] += (span.to_us - span.from_us) / whole / lanes.at(span.worker);
  return busy;
}

std::string traceJson(const std::string& job, const std::vector<Span>& spans, bool more) {
  const double start = startOf(spans);
  const std::map<std::string, double> busy = utilizationOf(spans);
  std::vector<std::string> events;
  std::map<std::string, int> processes;
  for (const auto& [worker, lanes] : lanesOf(spans)) {
    const int process = static_cast<int>(processes.size()) + 1;
    processes[worker] = process;
    events.push_back(absl::StrFormat(
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":%s,\"lanes\":%d,\"busy\":%.4f}}",
        process, jsonString(worker), lanes, busy.at(worker)));
  }
  for (const Span& span : spans) {
    std::string arguments = absl::StrFormat("\"task\":%s,\"attempt\":%d", jsonString(span.task), span.attempt);
    if (!span.failure.empty()) absl::StrAppend(&arguments, ",\"failure\":", jsonString(span.failure));
    events.push_back(absl::StrFormat(
        "{\"ph\":\"X\",\"name\":%s,\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.0f,\"dur\":%.0f,\"args\":{%s}}",
        jsonString(span.phase), span.failure.empty() ? "done" : "failed", processes[span.worker], span.lane + 1,
        span.from_us - start, std::max(1.0, span.to_us - span.from_us), arguments));
  }
  return absl::StrCat(
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"job\":", jsonString(job),
      absl::StrFormat(",\"start_us\":%.0f,\"more\":%s},\"traceEvents\":[\n", start, more ? "true" : "false"),
      absl::StrJoin(events, ",\n"), "\n]}\n");
}

}  // namespace tessera
