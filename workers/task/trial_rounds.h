#pragma once

#include "absl/types/span.h"
#include "tessera/v1/job.pb.h"

namespace tessera::worker {

/// Default number of timed runs.
inline constexpr int kTrialRuns = 7;

/// Decides how many timed runs the two sides of a trial get; runs of the sides alternate. A trial ends when more runs
/// would not change its verdict. Both sides are as stable as `rules.stable` (a shared machine may never reach that), or
/// the error of the medians is small against their difference, or the candidate is clearly slower than the best known
/// one after a few rounds, as most candidates are. If the baseline takes several times as long as the candidate, each
/// of its runs is followed by several runs of the candidate: the baseline's time is known well enough, and the
/// candidate is compared with other candidates.
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
