#pragma once

#include <algorithm>

#include "tessera/v1/task.pb.h"

namespace tessera::server {

/// How the queue treats a task: the only place of this room where kinds of tasks differ.
struct TaskTraits {
  int timed_threads = 0;  ///< a measurement with this many threads: gets cores that its host lends for measurements,
                          ///< shared with no other task; 0: none
  bool search = false;    ///< part of a search, during which other tasks stay off the lent cores
  bool trial = false;     ///< a failure is the outcome of a trial: no retry after a crash, no reproducer
  bool progress = true;   ///< the progress in its heartbeats is that of its jobs
  bool any_host = true;   ///< after INCOMPATIBLE_HOST another host may run it
};

inline constexpr v1::TaskKind kProposingKind = v1::SEARCH;  ///< a search waits for a worker while one is ready
inline constexpr v1::TaskKind kTimedKind = v1::MEASURE;

inline TaskTraits traitsOf(const v1::TaskSpec& spec) {
  switch (spec.kind()) {
    case v1::BUILD:
      return {.search = spec.build().candidate(), .trial = spec.build().candidate(), .progress = false};
    case v1::SEARCH:
      return {.search = true, .progress = false};
    case v1::MEASURE:
      return {.timed_threads = std::max(1, spec.measure().threads()), .search = true, .trial = true, .progress = false};
    case v1::EXECUTE:
    case v1::PROFILE:
      return {.any_host = false};
    default:
      return {};
  }
}

}  // namespace tessera::server
