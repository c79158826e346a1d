#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/v1/plan.pb.h"

/// Which of a plan's choices its prices do not settle (hardware adaptation, 6.2: what lies within the error of its
/// price is measured when trials are allowed, and left at the safer choice else).
namespace tessera::compiler {

/// An alternative is open while it would win if both prices were wrong by their error in its favour. Those of
/// `report`, at most one alternative for each place, the one that may gain most; equal ones together. In the order of
/// `possible_gain_us`, most first. What was measured of one answers all of the same hash, in other models too.
std::vector<v1::OpenChoice> openChoices(const v1::GraphReport& report);

/// All that is chosen otherwise in `other`, the same model's report by other prices, as one open choice; none where
/// nothing is. `whose` says in words whose prices those are. Where a description's own prices are wrong, no error that
/// they come with says by how much.
std::optional<v1::OpenChoice> chosenOtherwise(const v1::GraphReport& report, const v1::GraphReport& other,
                                              const std::string& whose);

}  // namespace tessera::compiler
