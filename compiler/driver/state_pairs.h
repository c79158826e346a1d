#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/state.pb.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

/// Returns the states of a model: the requested pairs in their order, then those found by name. `inputs` without the
/// sizes of ranges. INVALID_INPUT if a name is unknown or used twice, if the two tensors of a pair differ in type or
/// shape by more than new rows along a range, or if no pair is found by name.
absl::StatusOr<std::vector<v1::State>> statesOf(const v1::StateOptions& options,
                                                const std::vector<v1::TensorSpec>& inputs,
                                                const std::vector<v1::TensorSpec>& outputs);

}  // namespace tessera::compiler
