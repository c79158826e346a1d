#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/v1/job.pb.h"

/// Who worked on a job, and when: made of its events.
namespace tessera {

/// One attempt at a task.
struct Span {
  std::string worker, phase, task;
  int attempt = 0;
  double from_us = 0, to_us = 0;  ///< since the Unix epoch
  std::string failure;            ///< empty: it succeeded
  int lane = 0;                   ///< of its worker: attempts side by side have several
};

/// By worker, then by time. What ended without a worker (the queue's deadline) is left out.
std::vector<Span> spansOf(const std::vector<v1::JobEvent>& events);

/// When the first began; 0: there is none.
double startOf(const std::vector<Span>& spans);

/// The number of lanes of each worker.
std::map<std::string, int> lanesOf(const std::vector<Span>& spans);

/// Of each worker: the share of the time from the first start to the last end in which it did something, for each of
/// its lanes.
std::map<std::string, double> utilizationOf(const std::vector<Span>& spans);

/// Chrome's trace format, which Perfetto opens: a process a worker, a thread a lane, times in microseconds from the
/// first start, which `otherData.start_us` says. `more`: spans were left out, as `otherData.more` says.
std::string traceJson(const std::string& job, const std::vector<Span>& spans, bool more = false);

}  // namespace tessera
