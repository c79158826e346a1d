#pragma once

#include <algorithm>

#include "tessera/v1/task.pb.h"

namespace tessera::server {

/// How the queue treats a task: the only place of this room where kinds of tasks differ. Lent cores are the cores of a
/// host that its worker reserves for measurements (`--measuring-cores`, cores.h).
struct TaskTraits {
  int timed_threads = 0;  ///< a measurement with this many threads: gets lent cores, shared with no other task; 0: none
  bool search = false;    ///< part of a search, during which other tasks stay off the lent cores
  bool trial = false;     ///< a failure is the outcome of a trial: no retry after a crash, no reproducer
  bool reports_progress =
      true;  ///< its heartbeats update the progress of its jobs; false: the workflow computes the progress of its jobs
  bool any_host = true;  ///< after INCOMPATIBLE_HOST another host may run it
};

inline constexpr v1::TaskKind kSearchKind = v1::SEARCH;  ///< a search waits for a worker while one is ready
/// The kind of tasks that wait for lent cores, for queries of ready tasks.
inline constexpr v1::TaskKind kMeasureKind = v1::MEASURE;

inline TaskTraits traitsOf(const v1::TaskSpec& spec) {
  switch (spec.kind()) {
    case v1::BUILD:
      return {.search = spec.build().candidate(), .trial = spec.build().candidate(), .reports_progress = false};
    case v1::SEARCH:
      return {.search = true, .reports_progress = false};
    case v1::MEASURE:
      return {.timed_threads = std::max(1, spec.measure().threads()),
              .search = true,
              .trial = true,
              .reports_progress = false};
    case v1::EXECUTE:
    case v1::PROFILE:
      return {.any_host = false};
    default:
      return {};
  }
}

}  // namespace tessera::server
