#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

/// Tensors that an ONNX model stores in separate files (TensorProto.external_data).
namespace tessera::client {

/// Returns the locations that the model refers to, including those in its functions and in graphs of operators'
/// attributes. Does not read weights. For a file that is not an ONNX model the result is arbitrary; the service reports
/// the error.
std::set<std::string> externalLocations(const std::string& model_path);
/// The same for a model in memory.
std::set<std::string> externalLocationsIn(std::string_view model);

/// Resolves a location, which is relative to the model's folder, to a path without symbolic links. Returns an empty
/// string if there is no such file, or if the location itself leaves the folder ("..", an absolute path).
///
/// Symbolic links may lead to files in the folder of `model_path` and, from a snapshot of Hugging Face's cache
/// (models--ORG--NAME/snapshots/REVISION/...), to the blobs of the same repository. Any other link is INVALID_MODEL: a
/// downloaded model could otherwise make its user upload any file of the machine.
absl::StatusOr<std::string> resolveExternalFile(const std::string& model_path, const std::string& location);

}  // namespace tessera::client
