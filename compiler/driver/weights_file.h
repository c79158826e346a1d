#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace tessera::compiler {

/// Writes the weights section: each weight at its offset, zeros in between, `size` bytes in all. Frees each weight
/// after writing it. Calls `written` with the bytes so far every 64 MiB. Reserves the disk space first. Fails with
/// WORKER_FAULT if the file cannot be written, with INTERNAL if a weight lies outside the section or overlaps another
/// one.
absl::Status writeWeights(std::vector<PlannedGraph::PlacedWeight> weights, int64_t size, const std::string& path,
                          const std::function<void(int64_t bytes)>& written = {});

}  // namespace tessera::compiler
