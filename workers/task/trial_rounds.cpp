#include "workers/task/trial_rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "proto/support/median.h"

namespace tessera::worker {
namespace {

// Defaults: maximum as a multiple of kTrialRuns, and the spread that counts as stable.
constexpr int kMaxTimes = 5;
constexpr double kStable = 0.02;
constexpr int kMaxTimedRuns = 1000;
constexpr double kShortMs = 20;  // shorter runs are repeated more often
// Slow workloads need fewer runs, since each run is a mean over its length: both sides together take about this long.
constexpr double kLongMs = 700;
constexpr int kFewest = 3;
constexpr int kMaxOfCandidate = 4;  // per round
// A candidate is hopeless if it takes this many times as long as the baseline, or as the best, and at least
// kHopelessMs. Both factors allow for the noise of a single run.
constexpr double kHopeless = 5, kFarFromBest = 2.5, kHopelessMs = 1;

/// Allowed error of the medians for a gap of 1 between their logarithms, and its maximum.
constexpr double kErrorOfGap = 0.125, kMaxError = 0.05;

// A candidate that is behind the best by kBehind plus kErrorsBehind times the medians' error needs only 1 /
// kPartOfRounds of the rounds.
constexpr double kBehind = 0.05, kErrorsBehind = 4;
constexpr int kPartOfRounds = 4;

double sumOf(absl::Span<const double> ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

}  // namespace

TrialRounds::TrialRounds(const v1::MeasuringRules& rules, double baseline_ms, double candidate_ms, double best_speed)
    : best_speed_(rules.repeat() > 0 ? 0 : std::max(1.0, best_speed)),
      stable_(rules.stable() > 0 ? rules.stable() : kStable),
      hopeless_(candidate_ms > kHopelessMs &&
                (candidate_ms > kHopeless * baseline_ms || candidate_ms * best_speed > kFarFromBest * baseline_ms)) {
  const int repeat = rules.repeat() > 0 ? rules.repeat() : kTrialRuns;
  if (rules.repeat() == 0 && candidate_ms > 0)
    candidate_runs_ = static_cast<int>(std::clamp<double>(baseline_ms / candidate_ms, 1, kMaxOfCandidate));
  const double round_ms = std::max(1e-3, baseline_ms + candidate_runs_ * candidate_ms);
  const double enough_ms = candidate_runs_ > 1 ? kLongMs / 2 : kLongMs;
  least_ = rules.repeat() > 0 ? repeat : std::clamp(static_cast<int>(enough_ms / round_ms), kFewest, kTrialRuns);
  least_ = std::max(least_, static_cast<int>(std::min<double>(kMaxTimedRuns, kShortMs / std::max(1e-3, baseline_ms))));
  most_ = std::max(least_, rules.most() > 0 ? rules.most() : kMaxTimes * repeat);
  most_ms_ = rules.most() > 0 ? std::numeric_limits<double>::infinity() : kLongMs;
}

bool TrialRounds::enough(absl::Span<const double> baseline_ms, absl::Span<const double> candidate_ms) const {
  const int rounds = static_cast<int>(baseline_ms.size());
  const int few = std::max(kFewest, least_ / kPartOfRounds);
  if (rounds < std::min(few, least_)) return false;
  const double baseline_spread = relativeMad(baseline_ms), candidate_spread = relativeMad(candidate_ms);
  const double baseline = medianOf(baseline_ms), candidate = medianOf(candidate_ms);
  const bool timed = baseline > 0 && candidate > 0;
  const double error = std::hypot(medianStandardError(baseline_spread, baseline_ms.size()),
                                  medianStandardError(candidate_spread, candidate_ms.size()));
  if (timed && std::log(candidate * best_speed_ / baseline) > kBehind + kErrorsBehind * error) return true;
  if (rounds < least_) return false;
  if (rounds >= most_ || sumOf(baseline_ms) + sumOf(candidate_ms) >= most_ms_) return true;
  if (baseline_spread <= stable_ && candidate_spread <= stable_) return true;
  if (!timed) return false;
  const double gap = std::abs(std::log(baseline / candidate));
  return error <= std::clamp(kErrorOfGap * gap, stable_, std::max(stable_, kMaxError));
}

}  // namespace tessera::worker
