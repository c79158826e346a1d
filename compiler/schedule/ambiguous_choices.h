#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/v1/plan.pb.h"

/// Choices of a plan that the predicted costs do not decide (hardware adaptation, 6.2: alternatives within the error of
/// the prediction are measured if trials are allowed, and otherwise the safer one is taken).
namespace tessera::compiler {

/// An alternative is open if it would win with both predictions wrong by their error in its favour. Returns the open
/// choices of `report`, at most one alternative for each place (the one with the largest possible gain), with equal
/// ones merged, by descending `possible_gain_us`. A measurement of one applies to all with the same hash, in other
/// models too.
std::vector<v1::AmbiguousChoice> ambiguousChoices(const v1::GraphReport& report);

/// All choices that differ in `other`, a report of the same model with other cost parameters, as one open choice; none
/// if nothing differs. `whose` describes those parameters. Where a description's own parameters are wrong, their stated
/// errors do not say by how much.
std::optional<v1::AmbiguousChoice> differingChoices(const v1::GraphReport& report, const v1::GraphReport& other,
                                                    const std::string& whose);

}  // namespace tessera::compiler
