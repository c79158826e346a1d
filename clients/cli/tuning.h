#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/compile.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::client {

struct TuningOptions {
  int trials = 64;                       ///< of each workload, at most
  std::chrono::seconds budget{300};      ///< no trial is begun after it
  int threads = 1;                       ///< of the model's runs
  uint64_t seed = 1;                     ///< same seed, same order of what is proposed
  std::string method = "walk";           ///< compiler/search/search.h
  bool records = true;                   ///< what the service has measured before is tried first
  std::function<bool()> stop = nullptr;  ///< asked between trials: end now, with what there is
};

/// What came of one workload.
struct TunedWorkload {
  std::string hash, summary;
  int steps = 0;                       ///< of the model that run it
  int trials = 0;                      ///< measured
  int refused = 0;                     ///< trees that the workload cannot follow
  int failed = 0;                      ///< wrong, crashed, or not built
  double default_ms = 0, best_ms = 0;  ///< all its steps, medians of runs in turns at the end
  v1::Schedule schedule;               ///< the best
  bool improved = false;               ///< `schedule` is not the default's, and was faster at the end as well
  std::vector<std::string> failures;   ///< why, of those that failed
  std::string untuned;                 ///< why nothing was tried; empty: something was
};

struct TuningOutcome {
  v1::Pins pins;                         ///< trees that improved
  std::vector<TunedWorkload> workloads;  ///< most time first
  double default_ms = 0, best_ms = 0;    ///< the model, medians of runs in turns at the end
  double noise = 0;                      ///< median absolute deviation of the default's runs, as a share of default_ms
  int rounds = 0;                        ///< artifacts that were built and timed
  std::string artifact_id;               ///< with the pins
  std::string host;                      ///< that timed them
};

/// After each round: how many of all trials are done, and how much faster than the default what is known by now would
/// make the model.
using TuningProgress = std::function<void(int done, int total, const std::string& what)>;

/// Searches schedules for the workloads of a model with what the service can do. Each round proposes a tree for every
/// workload at once, compiles the model with them as suggestions (what did not change comes from the cache), holds its
/// answers against the default's on seeded inputs, and profiles both in turns on a worker: a record each (mode
/// "profile"). A round that fails is taken apart until the trees at fault are found; they count as failed. In the end
/// the best trees are timed against the default once more, and those that are not faster are left out.
///
/// `request` says what to compile; it must not have pins, variants or data-dependent output extents.
/// Errors: those of compiling and running the default; INVALID_ARGUMENT for an unknown method.
absl::StatusOr<TuningOutcome> tune(Channel& channel, const CompileRequest& request, const TuningOptions& options,
                                   const TuningProgress& progress);

}  // namespace tessera::client
