#pragma once

#include <string>
#include <vector>

#include "compiler/graph/plan/groups.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Groups that could run as one slice by slice, as priced by chainCandidates() and regionCandidates(); chooseFusions()
/// selects some. External users of `merged` appear only after the last of `groups`, so candidates that share no group
/// can all be taken.
struct FusionCandidate {
  std::vector<int> groups;  ///< ascending positions; the merged group takes the last one's place
  int site = 0;             ///< shared by alternative forms, at most one of which is reported
  v1::Decision decision;    ///< for the case that it is not taken
  v1::Choice choice = {};   ///< its name in pins; without a kind it is no choice
  std::string pinned = {};
  bool possible = false;                 ///< may be taken on request
  bool wanted = false;                   ///< may be taken: it is possible, and pays or is requested
  double error = 0;                      ///< relative error of a price
  double gain_us = 0;                    ///< beyond `error`
  bool ends_in_normalized_rows = false;  ///< ends in normalized rows: waits if another candidate continues there
  Group merged = {};                     ///< without choice and profit
};

}  // namespace tessera::compiler
