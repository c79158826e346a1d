#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::server {

/// Whether an artifact can be run with these inputs, as far as its manifest says: names, types, and shapes where it has
/// one of each. `fillable`: inputs that are not given are filled. INVALID_INPUT naming the input's place in `field`
/// ("execute.inputs[0]"). Which of several variants or sizes of a range is meant, the task says.
absl::Status checkRunInputs(const std::string& field, const v1::Manifest& manifest,
                            const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, bool fillable);

}  // namespace tessera::server
