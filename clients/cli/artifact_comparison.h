#pragma once

#include <string>
#include <vector>

#include "tessera/v1/plan.pb.h"

/// Comparison of two artifacts: times and kernels.
namespace tessera::client {

/// Times of two artifacts, measured in alternation: the i-th times of both are adjacent, so a disturbance slows both.
struct TimeChange {
  double before_ms = 0, after_ms = 0;  ///< medians
  double change = 0;                   ///< relative change of the median: 0.05 is 5 % slower
  double noise = 0;                    ///< the relative change that chance alone explains
  bool sure() const;                   ///< the change exceeds the noise
};

/// The noise is three standard errors of the median of the pairwise differences, estimated from their median absolute
/// deviation (proto/support/median.h, medianStandardError). It is at least 1 %, because the same code at other
/// addresses differs by that much. Both vectors have the same length, at least one.
TimeChange changeOf(const std::vector<double>& before_ms, const std::vector<double>& after_ms);

enum class CodeChange { kSame, kOtherSchedule, kOtherKernel, kNew, kGone };
std::string describe(CodeChange change);

/// A step of the first plan and the corresponding step of the second.
struct StepPair {
  std::string name;             ///< the graph's nodes that the step computes
  int before = -1, after = -1;  ///< positions among the steps; -1: none
  CodeChange code = CodeChange::kSame;
};

/// Pairs steps of equal names in their order. Unpaired steps follow at the end.
std::vector<StepPair> pairSteps(const v1::Plan& before, size_t before_variant, const v1::Plan& after,
                                size_t after_variant);

}  // namespace tessera::client
