// tessera curve | trace: learning curves of searches, and timelines of jobs.

#include <iostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/learning_curve.h"
#include "clients/cli/output.h"
#include "clients/cli/record_stream.h"
#include "clients/cli/timeline.h"
#include "proto/messages/failure.h"
#include "proto/messages/job_timeline.h"

namespace tessera::client {
namespace {

constexpr size_t kMaxCurves = 24;  // limit of one drawing

struct CurveFlags {
  std::string filter, job, workload, output, by = "trials", what = "ms";
};

/// Returns a filter for the records of a job's searches. Records of a search that the job shared with another job carry
/// the id of the job that started the search.
absl::StatusOr<std::string> searchesOf(Channel& channel, const std::string& id) {
  std::string own = absl::StrCat("job = \"", id, "\"");
  v1::GetJobRequest get;
  get.set_id(id);
  const auto job = channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, get);
  if (absl::IsNotFound(job.status())) return own;  // records outlive their jobs
  if (!job.ok()) return job.status();
  std::vector<std::string> shared;
  for (const v1::TuneResult::Workload& workload : job->job().tune_result().workloads())
    if (workload.shared()) shared.push_back(absl::StrCat("workload = \"", workload.hash(), "\""));
  if (shared.empty()) return own;
  const std::string workloads = absl::StrCat("(", absl::StrJoin(shared, " OR "), ")");
  std::set<std::string> jobs;
  absl::Status read = forEachRecord(channel,
                                    absl::StrCat(workloads, " AND create_time >= ", job->job().create_time_us(),
                                                 " AND create_time <= ", job->job().end_time_us()),
                                    [&](const v1::TuningRecord& record) { jobs.insert(record.job_id()); });
  if (!read.ok()) return read;
  std::string all = own;
  for (const std::string& each : jobs) {
    if (each != id) absl::StrAppend(&all, " OR (job = \"", each, "\" AND ", workloads, ")");
  }
  return all;
}

/// `searches` is a filter for the records of the given job; empty: all records.
std::string filterOf(const CurveFlags& flags, const std::string& searches) {
  std::string filter = flags.filter.empty() ? "" : absl::StrCat("(", flags.filter, ")");
  const auto add = [&](const char* field, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&filter, filter.empty() ? "" : " AND ", field, " = \"", value, "\"");
  };
  if (!searches.empty()) absl::StrAppend(&filter, filter.empty() ? "(" : " AND (", searches, ")");
  add("workload", flags.workload);
  return filter;
}

int curve(const CommandLine& line, const CurveFlags& flags) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  std::string searches;
  if (!flags.job.empty()) {
    auto found = searchesOf(**channel, flags.job);
    if (!found.ok()) return reportError(found.status(), line.json);
    searches = *std::move(found);
  }
  const std::string filter = filterOf(flags, searches);
  std::vector<v1::TuningRecord> records;
  const absl::Status read =
      forEachRecord(**channel, filter, [&](const v1::TuningRecord& record) { records.push_back(record); });
  if (!read.ok()) return reportError(read, line.json);
  const std::vector<LearningCurve> curves = curvesOf(std::move(records));
  if (line.json) std::cout << curvesJson(curves);
  if (flags.output.empty() && line.json) return 0;
  const CurveOver over = flags.by == "trials" ? CurveOver::kTrials : CurveOver::kSeconds;
  const CurveOf what = flags.what == "ms" ? CurveOf::kMs : flags.what == "speed" ? CurveOf::kSpeed : CurveOf::kGflops;
  std::vector<Curve> drawn;
  for (const LearningCurve& each : curves)
    if (Curve one = drawnCurve(each, over, what); !one.points.empty()) drawn.push_back(std::move(one));
  if (drawn.empty() || drawn.size() > kMaxCurves) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_attribute("--filter");
    failure.set_found(absl::StrCat(drawn.size(), " searches with such numbers"));
    failure.set_accepted(absl::StrCat("1 to ", kMaxCurves));
    failure.set_message(absl::StrCat("nothing to draw: ", failure.found(), " among the records of ",
                                     filter.empty() ? "the whole database" : filter));
    failure.set_fix("name a --job or a --workload; records without a baseline have no --of speed");
    return reportError(failureStatus(failure), line.json);
  }
  const std::string path = flags.output.empty() ? "curve.svg" : flags.output;
  const char* y_axis = what == CurveOf::kMs      ? "best so far, ms"
                       : what == CurveOf::kSpeed ? "best so far, default = 1"
                                                 : "best so far, GFLOP/s";
  const absl::Status written = writeText(
      path, curveSvg("Best schedule so far", over == CurveOver::kTrials ? "trials" : "seconds", y_axis, drawn));
  if (!written.ok()) return reportError(written, line.json);
  if (!line.json) std::cout << path << ": " << drawn.size() << (drawn.size() == 1 ? " search\n" : " searches\n");
  return 0;
}

/// Returns all events of a finished job, or the events so far of a running one.
absl::StatusOr<std::vector<v1::JobEvent>> eventsOf(Channel& channel, const v1::Job& job) {
  const bool over = job.end_time_us() != 0;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(over ? 600 : 2));
  v1::WatchJobRequest request;
  request.set_id(job.id());
  auto reader = channel.jobs().WatchJob(&context, request);
  std::vector<v1::JobEvent> events;
  v1::WatchJobResponse response;
  while (reader->Read(&response)) events.push_back(response.event());
  const grpc::Status status = reader->Finish();
  if (status.ok() || (!over && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)) return events;
  return fromGrpc(status);
}

struct TraceFlags {
  std::string job, output, svg;
};

int trace(const CommandLine& line, const TraceFlags& flags) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  v1::GetJobRequest get;
  get.set_id(flags.job);
  auto job = (*channel)->call((*channel)->jobs(), &v1::JobService::Stub::GetJob, get);
  if (!job.ok()) return reportError(job.status(), line.json);
  auto events = eventsOf(**channel, job->job());
  if (!events.ok()) return reportError(events.status(), line.json);
  const std::vector<Span> spans = spansOf(*events);
  const std::string text = traceJson(flags.job, spans);
  if (!flags.output.empty())
    if (absl::Status status = writeText(flags.output, text); !status.ok()) return reportError(status, line.json);
  if (!flags.svg.empty())
    if (absl::Status status = writeText(flags.svg, ganttSvg(ganttOf(flags.job, spans))); !status.ok())
      return reportError(status, line.json);
  if (line.json) {
    std::cout << text;
    return 0;
  }
  std::map<std::string, std::pair<int, double>> phases;
  for (const Span& span : spans) {
    ++phases[absl::StrCat(span.worker, "\t", span.phase)].first;
    phases[absl::StrCat(span.worker, "\t", span.phase)].second += (span.to_us - span.from_us) / 1000;
  }
  const std::map<std::string, double> busy = utilizationOf(spans);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, sum] : phases) {
    const std::string worker = key.substr(0, key.find('\t'));
    rows.push_back({worker, key.substr(key.find('\t') + 1), absl::StrCat(sum.first), durationText(sum.second),
                    absl::StrFormat("%.0f %%", 100 * busy.at(worker))});
  }
  std::cout << table({"WORKER", "PHASE", "ATTEMPTS", "TIME", "WORKER BUSY"}, rows);
  for (const std::string& path : {flags.output, flags.svg})
    if (!path.empty()) std::cout << path << "\n";
  return 0;
}

}  // namespace

void addCurveAndTraceCommands(CommandLine& line) {
  CLI::App* command = line.add("curve", "Draw learning curves of searches: the best result so far, from records");
  auto flags = std::make_shared<CurveFlags>();
  command->add_option("--job", flags->job, "records of this job");
  command->add_option("--workload", flags->workload, "records of this workload's hash");
  command->add_option("--filter", flags->filter, "AIP-160 filter as of `tessera records`");
  command->add_option("--by", flags->by, "horizontal axis: trials or seconds")
      ->capture_default_str()
      ->check(CLI::IsMember({"trials", "seconds"}));
  command
      ->add_option("--of", flags->what, "vertical axis: ms, speed (the default's time divided by the best's) or gflops")
      ->capture_default_str()
      ->check(CLI::IsMember({"ms", "speed", "gflops"}));
  command->add_option("-o,--output", flags->output, "the SVG file (default: curve.svg; with --json only if named)");
  command->footer("With --json every trial of every search is printed.");
  command->callback([&line, flags] { line.action = [&line, flags] { return curve(line, *flags); }; });

  CLI::App* gantt =
      line.add("trace", "Show the activity of each worker for a job: table, Gantt chart, or trace for Perfetto");
  auto traced = std::make_shared<TraceFlags>();
  gantt->add_option("JOB", traced->job, "the job; of a running one, its activity so far")->required();
  gantt->add_option("-o,--output", traced->output, "trace file for ui.perfetto.dev or chrome://tracing");
  gantt->add_option("--svg", traced->svg, "Gantt chart");
  gantt->footer("With --json the trace is printed.");
  gantt->callback([&line, traced] { line.action = [&line, traced] { return trace(line, *traced); }; });
}

}  // namespace tessera::client
