#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace tessera::compiler {

/// Writes the weights section: each weight at its offset, zeros between, `size` bytes in all. Weights are views
/// into the mapped model, so nothing is copied to the heap. Fails with INTERNAL when the file cannot be written
/// or a weight lies outside the section or over another one.
absl::Status writeWeights(const std::vector<PlannedGraph::PlacedWeight>& weights, int64_t size,
                          const std::string& path);

}  // namespace tessera::compiler
