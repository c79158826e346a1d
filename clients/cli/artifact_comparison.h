#pragma once

#include <string>
#include <vector>

#include "tessera/v1/plan.pb.h"

/// What became of one artifact's times and kernels in another one.
namespace tessera::client {

/// Times of two, taken in turns: the i-th of both lie side by side, so that what slows the machine down slows both.
struct TimeChange {
  double before_ms = 0, after_ms = 0;  ///< medians
  double change = 0;                   ///< of the median, relative: 0.05 is 5 % slower
  double noise = 0;                    ///< what chance alone makes of it, relative
  bool sure() const;                   ///< the change exceeds the noise
};

/// The noise is three standard errors of the median of the differences of each turn, by their median absolute deviation
/// (proto/support/median.h, errorOfMedian), and never less than 1 %: the same code at other addresses differs by that
/// much. Both have the same count, at least one.
TimeChange changeOf(const std::vector<double>& before_ms, const std::vector<double>& after_ms);

enum class CodeChange { kSame, kOtherSchedule, kOtherKernel, kNew, kGone };
std::string describe(CodeChange change);

/// A step of one and the step of the other that it became.
struct StepPair {
  std::string name;             ///< the graph's nodes it stems from
  int before = -1, after = -1;  ///< positions among the steps; -1: there is none
  CodeChange code = CodeChange::kSame;
};

/// Steps of one name belong together, in their order; what the other lacks stands alone, at the end.
std::vector<StepPair> pairSteps(const v1::Plan& before, size_t before_variant, const v1::Plan& after,
                                size_t after_variant);

}  // namespace tessera::client
