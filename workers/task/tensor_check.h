#pragma once

#include <string>

#include "absl/status/status.h"
#include "compiler/runtime/tessera.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// The runtime's description of a tensor as a spec.
v1::TensorSpec specOf(const tessera_tensor_info& info);

/// INVALID_INPUT unless dtype and shape are the accepted ones.
absl::Status checkType(const v1::TensorValue& given, const v1::TensorSpec& accepted);

/// INVALID_INPUT unless dtype and shape are the accepted ones and, for inline data, its length is too.
absl::Status checkTensor(const v1::TensorValue& given, const v1::TensorSpec& accepted, int64_t accepted_bytes);

/// INVALID_INPUT about a tensor by name.
absl::Status tensorFailure(const std::string& name, const std::string& message, const std::string& found,
                           const std::string& accepted);

}  // namespace tessera::worker
