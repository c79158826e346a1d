#pragma once

#include <set>
#include <string>
#include <string_view>

/// Tensors that an ONNX model keeps in files of their own (TensorProto.external_data).
namespace tessera::client {

/// The locations that the model names, in its functions and the bodies of its operators too. Nothing of weights is
/// read. Of a file that is no ONNX model what looks like them: the service says what is wrong with it.
std::set<std::string> externalLocations(const std::string& model_path);
/// The same of a model that is in memory.
std::set<std::string> externalLocationsIn(std::string_view model);

/// The file of a location, which is relative to the model's folder. Empty: there is no such file, or it would lie
/// outside of the folder ("..", an absolute path), whatever else the model may name.
std::string besideModel(const std::string& model_path, const std::string& location);

}  // namespace tessera::client
