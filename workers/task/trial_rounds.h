#pragma once

#include "absl/types/span.h"
#include "tessera/v1/job.pb.h"

namespace tessera::worker {

/// Default number of timed runs.
inline constexpr int kTrialRuns = 7;

/// Decides how often the two sides of a trial are timed, alternating. A trial ends when more runs would not change its
/// verdict: when both sides are as stable as `rules.stable`, which a shared machine may never reach; or when the error
/// of the medians is small against their difference; or, for candidates clearly slower than the best known, which are
/// the majority, after a few rounds. If the baseline takes several times as long as the candidate, its time is known
/// well enough, and each of its runs is followed by several of the candidate's, which is to be compared with other
/// candidates.
class TrialRounds {
 public:
  /// `baseline_ms` and `candidate_ms` are the positive times of the first runs. `best_speed` is the baseline's time
  /// over that of the fastest known candidate; 0 if there is none.
  TrialRounds(const v1::MeasuringRules& rules, double baseline_ms, double candidate_ms, double best_speed = 0);

  /// Whether one run each is sufficient: the candidate is far slower than the baseline or the best, and its run is long
  /// enough to be conclusive.
  bool hopeless() const { return hopeless_; }
  /// Runs of the candidate per round; a round has one run of the baseline.
  int candidateRuns() const { return candidate_runs_; }
  /// Whether the times of the rounds so far, at least one, suffice.
  bool enough(absl::Span<const double> baseline_ms, absl::Span<const double> candidate_ms) const;

 private:
  double best_speed_ = 1;  ///< at least 1; 0 if the rules name counts, which disables early ends
  double stable_ = 0;
  int candidate_runs_ = 1;
  int least_ = 0, most_ = 0;  ///< in rounds
  double most_ms_ = 0;        ///< limit on the total time of both sides after `least_` rounds
  bool hopeless_ = false;
};

}  // namespace tessera::worker
