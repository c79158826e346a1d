#pragma once

#include <string>
#include <vector>

#include "compiler/graph/plan/groups.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Groups that could run as one, slice by slice. chainCandidates() and regionCandidates() predict the time of each
/// candidate; chooseFusions() takes some of them. External users of `merged` appear only after the last of `groups`, so
/// candidates that share no group can all be taken.
///
/// A candidate is `feasible` if code generation can run it in slices. It is `eligible` if it is feasible and either
/// predicted to gain or requested (by a pin, or by FusionPolicy::kWheneverPossible). It is taken if chooseFusions()
/// selects it among the eligible ones.
struct FusionCandidate {
  std::vector<int> groups;  ///< ascending positions; the merged group takes the last one's place
  /// Variants of one fusion (with and without moved operands) share this number; at most one of them is reported.
  int variants_id = 0;
  v1::Decision decision;                 ///< its figures, for `explain`; completed when it is known whether it is taken
  v1::Choice choice = {};                ///< kind and place by which pins name it; without a kind it cannot be pinned
  std::string pinned = {};               ///< value of its pin: "fused", "apart"; empty: no pin
  bool feasible = false;                 ///< whether it can run in slices
  bool eligible = false;                 ///< whether it may be taken: feasible, and a gain or requested
  double error = 0;                      ///< relative error of the predicted times
  double gain_us = 0;                    ///< predicted time saved, beyond `error`
  bool ends_in_normalized_rows = false;  ///< selected last if another candidate continues from these rows
  Group merged = {};                     ///< without choice and profit
};

}  // namespace tessera::compiler
