#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {

/// What a request says of dimensions whose names do not say it: that "total" is "past + tokens". It is asked for by a
/// binding of that name, "total=past + tokens", without a size (0); a dimension that the model calls so is itself.
///
/// The dimension is then what an exporter would have named so: its name in `inputs`, those of the model, becomes what
/// it follows from. Inputs that have it are kept in `renamed`, which `inputs` points into. The binding is taken out of
/// `dimensions`, as in ImportOptions. Fails with INVALID_INPUT when there is no such dimension, or it is said to follow
/// from what is no arithmetic of the other ones.
absl::Status applyStatedFormulas(std::map<std::string, int64_t>& dimensions,
                                 std::vector<const onnx::ValueInfoProto*>& inputs,
                                 std::list<onnx::ValueInfoProto>& renamed);

}  // namespace tessera::compiler
