#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/v1/job.pb.h"

/// Timeline of the attempts of a job, computed from its events.
namespace tessera {

/// One attempt at a task.
struct Span {
  std::string worker, phase, task;
  int attempt = 0;
  double from_us = 0, to_us = 0;  ///< since the Unix epoch
  std::string failure;            ///< empty: it succeeded
  int lane = 0;                   ///< attempts that overlap on one worker are in different lanes
};

/// Returns the attempts sorted by worker and start time. Failures without a worker, such as queue deadlines, are
/// omitted.
std::vector<Span> spansOf(const std::vector<v1::JobEvent>& events);

/// Earliest start; 0 if there are no spans.
double startOf(const std::vector<Span>& spans);

/// Number of lanes per worker.
std::map<std::string, int> lanesOf(const std::vector<Span>& spans);

/// Utilization of each worker: busy time over the time from the first start to the last end, divided by its number of
/// lanes.
std::map<std::string, double> utilizationOf(const std::vector<Span>& spans);

/// Returns a trace in Chrome's format, which Perfetto opens. A worker is a process and a lane a thread. Times are
/// microseconds since the first start, which is in `otherData.start_us`. `more` says that spans were omitted
/// (`otherData.more`).
std::string traceJson(const std::string& job, const std::vector<Span>& spans, bool more = false);

}  // namespace tessera
