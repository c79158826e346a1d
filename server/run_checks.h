#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::server {

/// Whether the artifact accepts these inputs, as far as its manifest tells: names, types, and shapes if it has one of
/// each. `fillable`: missing inputs are filled. INVALID_INPUT names the input within `field` ("execute.inputs[0]"). The
/// task itself selects among variants and sizes of a range.
absl::Status checkRunInputs(const std::string& field, const v1::Manifest& manifest,
                            const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, bool fillable);

}  // namespace tessera::server
