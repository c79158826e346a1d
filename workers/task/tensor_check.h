#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/runtime/tessera.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// Converts the runtime's description of a tensor.
v1::TensorSpec specOf(const tessera_tensor_info& info);

/// INVALID_INPUT unless dtype and shape match `accepted`.
absl::Status checkType(const v1::TensorValue& given, const v1::TensorSpec& accepted);

/// Also checks the length of inline data.
absl::Status checkTensor(const v1::TensorValue& given, const v1::TensorSpec& accepted, int64_t accepted_bytes);

/// INVALID_INPUT for a name that is given twice or that the artifact lacks.
absl::Status checkNames(const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
                        const std::vector<v1::TensorSpec>& accepted);

/// Returns an INVALID_INPUT failure that names the tensor.
absl::Status tensorFailure(const std::string& name, const std::string& message, const std::string& found,
                           const std::string& accepted);

}  // namespace tessera::worker
