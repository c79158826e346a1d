#pragma once

#include <algorithm>

#include "tessera/v1/task.pb.h"

namespace tessera::server {

/// How the queue treats a task. In server/queue only this file distinguishes kinds of tasks. The measuring cores of a
/// host are those that its worker reserves for measurements (`--measuring-cores`, cores.h).
struct TaskTraits {
  /// Threads of a timed run, which gets as many measuring cores and shares them with no other task; 0: not timed.
  int timed_threads = 0;
  bool search = false;  ///< part of a search, during which other tasks stay off the measuring cores
  bool trial = false;   ///< a failure is the outcome of a trial: no retry after a crash, no reproducer
  /// Its heartbeats update the progress of its jobs; false: the workflow computes that progress.
  bool reports_progress = true;
  bool any_host = true;  ///< after INCOMPATIBLE_HOST, another host may run it
};

/// Tasks of this kind propose the next trials of a search.
inline constexpr v1::TaskKind kSearchKind = v1::SEARCH;
/// Tasks of this kind need measuring cores.
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
