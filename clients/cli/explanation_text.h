#pragma once

#include <string>
#include <vector>

#include "tessera/v1/analysis.pb.h"

namespace tessera::client {

/// An explanation for a person: the model's nodes by operator (each one with `all_nodes`), the rewrites, the fused
/// groups with work, traffic, intensity and layout, the decisions (those that differ in place alone as one, unless
/// `all_nodes`), and memory against its bounds. Parts of which the explanation knows nothing (an artifact no longer has
/// the model's nodes) are left out.
std::string explanationText(const v1::Explanation& explanation, bool all_nodes);

/// Columns of a table of fusions: the class by inputs, what equation 4.10 counts, what the analysis priced.
std::vector<std::string> fusionHeader();
std::vector<std::string> fusionCells(const v1::FusionProfit& profit);

/// Columns of a table of choices that prices do not settle: the kind, both ways with their prices, where.
std::vector<std::string> openChoiceHeader();
std::vector<std::string> openChoiceCells(const v1::OpenChoice& open);

}  // namespace tessera::client
