#pragma once

#include "absl/types/span.h"
#include "tessera/v1/job.pb.h"

namespace tessera::worker {

/// Timed runs where the rules do not say.
inline constexpr int kTrialRuns = 7;

/// How often the two sides of a trial are timed, in turns. A trial is over when it says which side is faster, and by
/// how much, as well as one that goes on could: not only when both are as calm as `rules.stable`, which a shared
/// machine may never be, but also when the medians' own error is small beside the gap between them, and for what is
/// clearly behind the best that is known, of which there is the most, after a few rounds. Where the baseline
/// takes several times as long, which is then known well enough, each of its runs is followed by several of the
/// candidate's: it is with other candidates that this one is compared.
class TrialRounds {
 public:
  /// `baseline_ms`, `candidate_ms`: of the first run of each, positive. `best_speed`: of the fastest that is known, the
  /// baseline's time over its own; 0 where none is.
  TrialRounds(const v1::MeasuringRules& rules, double baseline_ms, double candidate_ms, double best_speed = 0);

  /// Whether one run each has said all: the candidate is far slower than the baseline or the best, and runs long enough
  /// to tell by.
  bool hopeless() const { return hopeless_; }
  /// Runs of the candidate in a round, which has one of the baseline.
  int candidateRuns() const { return candidate_runs_; }
  /// Whether the times of whole rounds so far, one at least, are enough.
  bool enough(absl::Span<const double> baseline_ms, absl::Span<const double> candidate_ms) const;

 private:
  double best_speed_ = 1;  ///< 1 at least; 0 where counts are named: then nothing is behind it
  double stable_ = 0;
  int candidate_runs_ = 1;
  int least_ = 0, most_ = 0;  ///< rounds
  double most_ms_ = 0;        ///< of both sides together, after `least_` rounds
  bool hopeless_ = false;
};

}  // namespace tessera::worker
