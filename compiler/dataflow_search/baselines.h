#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/dataflow_search/phase_space.h"

/// The dataflows of table 3.8 of the thesis as restrictions of the space. They speak of roles of loops, which follow
/// from the last product or convolution: of its loops, batches index all its tensors, rows its result and the
/// intermediate that it reads, columns its result and its other operand; links are summed.
namespace tessera::compiler::dataflow_search {

struct Baseline {
  std::string name;
  std::string summary;
};
const std::vector<Baseline>& baselines();

/// Fails with INVALID_ARGUMENT if there is no such baseline (naming all), or if the problem is not a chain with a
/// product or convolution that reads the result of an earlier operator.
absl::StatusOr<Restriction> restrictionOf(const std::string& baseline, const loopnest::Nest& nest);

}  // namespace tessera::compiler::dataflow_search
