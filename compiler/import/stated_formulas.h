#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {

/// Applies formulas that a request states for dimensions whose names are no formulas, such as "total" = "past +
/// tokens". The request binds the name "total=past + tokens" without a size (0). A dimension of the model with exactly
/// that name takes precedence.
///
/// The dimension in `inputs` is renamed to the formula, as an exporter would have named it. Changed inputs are copied
/// to `renamed`, and `inputs` then points there. The binding is removed from `dimensions`, as in ImportOptions. Fails
/// with INVALID_INPUT if there is no such dimension, or if the text is no formula of other dimensions.
absl::Status applyRequestedFormulas(std::map<std::string, int64_t>& dimensions,
                                    std::vector<const onnx::ValueInfoProto*>& inputs,
                                    std::list<onnx::ValueInfoProto>& renamed);

}  // namespace tessera::compiler
