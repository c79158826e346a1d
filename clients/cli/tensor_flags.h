#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/npy.h"

namespace tessera::client {

/// Reads what `--input` names: NAME=FILE.npy, or FILE.npz with arrays by name. Later flags win.
absl::StatusOr<std::map<std::string, Tensor>> readInputs(const std::vector<std::string>& flags);

/// Fails unless `given` has exactly the tensors described, each with its type and shape: INVALID_INPUT says
/// which, what was found and what is accepted.
absl::Status checkInputs(const std::map<std::string, Tensor>& given, std::span<const v1::TensorSpec> described);

/// A tensor of small seeded values that suit its type (floats in [-1, 1), integers in [0, 100), booleans).
Tensor seededTensor(const v1::TensorSpec& spec, uint64_t seed);

/// Writes DIR/<name>.npy; '/' in a name becomes '_'. Makes the folder.
absl::Status writeOutput(const std::string& folder, const v1::TensorSpec& spec, std::string_view bytes);

}  // namespace tessera::client
