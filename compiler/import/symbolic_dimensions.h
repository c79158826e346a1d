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

/// Names of the inputs' symbolic dimensions, each once, in the order in which the inputs name them.
std::vector<std::string> symbolicDimensions(const GraphInputs& inputs);

/// Fails with INVALID_INPUT when `given` names a dimension that no input has; lists those that exist.
absl::Status checkDimensionNames(const std::map<std::string, int64_t>& given, const std::vector<std::string>& known);

/// What to type so that `input` and, with it, every other input of the graph has a static shape: --dim for each name
/// that is not in `bound` and does not follow from others, and the --shape that does the same for this input alone.
std::string bindingHint(const GraphInputs& inputs, const onnx::ValueInfoProto& input,
                        const std::map<std::string, int64_t>& bound);

}  // namespace tessera::compiler
