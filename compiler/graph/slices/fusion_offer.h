#pragma once

#include <string>
#include <vector>

#include "compiler/graph/plan/groups.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Groups that could run as one slice by slice, as chainOffers() and regionOffers() price them; chooseFusions() takes
/// some. What is read of `merged` outside is read behind the last of `groups` only, so offers that share no group can
/// all be taken.
struct FusionOffer {
  std::vector<int> groups;  ///< ascending positions; the merged one runs in the last one's place
  int site = 0;             ///< of offers that are forms of one another, at most one of which is told
  v1::Decision decision;    ///< as if it was not taken
  v1::Choice choice = {};   ///< what pins know it by; without a kind there is nothing to choose
  std::string pinned = {};
  bool possible = false;       ///< when it is asked for
  bool wanted = false;         ///< may be taken: it is possible, and pays or is asked for
  double error = 0;            ///< share of a price by which it may be wrong
  double gain_us = 0;          ///< beyond that
  bool stops_at_rows = false;  ///< ends behind a product: waits where an offer goes on from there
  Group merged = {};           ///< without choice and profit
};

}  // namespace tessera::compiler
