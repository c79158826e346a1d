#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace tessera::compiler {

/// Writes the weights section: each weight at its offset, zeros between, `size` bytes in all, and lets go of each when
/// it is written. `written` is told how many bytes there are, every 64 MiB. All room is reserved first. Fails with
/// WORKER_FAULT when the file cannot be written, with INTERNAL when a weight lies outside the section or over another
/// one.
absl::Status writeWeights(std::vector<PlannedGraph::PlacedWeight> weights, int64_t size, const std::string& path,
                          const std::function<void(int64_t bytes)>& written = {});

}  // namespace tessera::compiler
