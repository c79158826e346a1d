#pragma once

#include "absl/types/span.h"
#include "tessera/v1/job.pb.h"

namespace tessera::worker {

/// Timed runs where the rules do not say.
inline constexpr int kTrialRuns = 7;

/// How often the two sides of a trial are timed, in turns. A trial is over when it says which side is faster, and by
/// how much, as well as one that goes on could: not only when both are as calm as `rules.stable`, which a shared
/// machine may never be, but also when the medians' own error is small beside the gap between them.
class TrialRounds {
 public:
  /// `baseline_ms`, `candidate_ms`: of one warm run each, positive.
  TrialRounds(const v1::MeasuringRules& rules, double baseline_ms, double candidate_ms);

  /// Whether one run each has said all: the candidate is out of the question.
  bool hopeless() const { return hopeless_; }
  /// Whether the times so far (of as many runs each, one at least) are enough.
  bool enough(absl::Span<const double> baseline_ms, absl::Span<const double> candidate_ms) const;

 private:
  double stable_ = 0;
  int least_ = 0, most_ = 0;
  double most_ms_ = 0;  ///< of both sides together, after `least_` rounds
  bool hopeless_ = false;
};

}  // namespace tessera::worker
