#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loopnest/nest.h"

/// The operations applied to a kernel's sums, in order, before they are rounded to the result's type and stored.
namespace tessera::compiler::ptx {

struct EpilogueStep {
  std::string text;                       ///< as given in the request
  std::optional<loopnest::Access> added;  ///< a tensor of the result's type to add; unset: ReLU
};

/// Parses steps: "+ bias[j]" or "+ residual[i, j]" adds a tensor over loops of the result, each used once, broadcast
/// along the others; "relu". Fails with INVALID_ARGUMENT naming the step and its fault.
absl::StatusOr<std::vector<EpilogueStep>> epilogueOf(const loopnest::Nest& software,
                                                     const std::vector<std::string>& steps);

}  // namespace tessera::compiler::ptx
