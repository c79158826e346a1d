#pragma once

#include <string>
#include <vector>

#include "tessera/v1/analysis.pb.h"

namespace tessera::client {

/// Formats an explanation as text: the model's nodes by operator (each node with `all_nodes`), rewrites, fused groups
/// with work, traffic, intensity and layout, decisions (grouped if they differ only in place, unless `all_nodes`), and
/// memory with its lower bounds. Missing parts (an artifact lacks the model's nodes) are omitted.
std::string explanationText(const v1::Explanation& explanation, bool all_nodes);

/// Columns of the table of fusions: class by inputs, result of equation 4.10, predicted costs.
std::vector<std::string> fusionHeader();
std::vector<std::string> fusionCells(const v1::FusionProfit& profit);

/// Columns of the table of open choices, whose predicted costs are too close to decide: kind, both alternatives with
/// their costs, place.
std::vector<std::string> openChoiceHeader();
std::vector<std::string> openChoiceCells(const v1::AmbiguousChoice& open);

}  // namespace tessera::client
