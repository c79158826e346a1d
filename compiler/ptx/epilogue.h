#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/nest.h"

/// What a kernel does with its sums, one after the other, before they are rounded to the result's type and stored.
namespace tessera::compiler::ptx {

struct EpilogueStep {
  std::string text;                        ///< as it was asked for
  std::optional<intrinsic::Access> added;  ///< a tensor of the result's type; none: what is below zero becomes zero
};

/// "+ bias[j]", "+ residual[i, j]": a tensor over loops of the result, each once, repeated along the others. "relu".
/// INVALID_ARGUMENT names the step and what is wrong with it.
absl::StatusOr<std::vector<EpilogueStep>> epilogueOf(const intrinsic::Nest& software,
                                                     const std::vector<std::string>& steps);

}  // namespace tessera::compiler::ptx
