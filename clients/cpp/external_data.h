#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

/// Tensors that an ONNX model keeps in files of their own (TensorProto.external_data).
namespace tessera::client {

/// The locations that the model names, in its functions and the bodies of its operators too. Nothing of weights is
/// read. Of a file that is no ONNX model what looks like them: the service says what is wrong with it.
std::set<std::string> externalLocations(const std::string& model_path);
/// The same of a model that is in memory.
std::set<std::string> externalLocationsIn(std::string_view model);

/// Path, free of symbolic links, of the file at a location, which is relative to the model's folder. Empty: there is no
/// such file, or the location itself leaves the folder ("..", an absolute path).
///
/// Symbolic links are followed within the folder that holds `model_path` (itself without links), and from a snapshot of
/// Hugging Face's cache (models--ORG--NAME/snapshots/REVISION/...) to the blobs of the same repository. A link that
/// leads elsewhere is INVALID_MODEL: a downloaded model could otherwise make its user upload any file of the machine.
absl::StatusOr<std::string> besideModel(const std::string& model_path, const std::string& location);

}  // namespace tessera::client
