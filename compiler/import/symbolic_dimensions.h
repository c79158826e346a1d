#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace onnx {
class ValueInfoProto;
}  // namespace onnx

namespace tessera::compiler {

using GraphInputs = std::vector<const onnx::ValueInfoProto*>;

/// Returns the names of the inputs' symbolic dimensions, each once, in order of first appearance.
std::vector<std::string> symbolicDimensions(const GraphInputs& inputs);

/// Fails with INVALID_INPUT if `given` names a dimension that no input has; the error lists those that exist.
absl::Status checkDimensionNames(const std::map<std::string, int64_t>& given, const std::vector<std::string>& known);

/// Returns the options to type so that `input` and all other inputs of the graph have static shapes: --dim for each
/// name that is neither in `bound` nor derived from others, and alternatively --shape for this input alone.
std::string bindingHint(const GraphInputs& inputs, const onnx::ValueInfoProto& input,
                        const std::map<std::string, int64_t>& bound);

}  // namespace tessera::compiler
