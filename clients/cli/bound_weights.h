#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/safetensors.h"
#include "onnx/onnx.pb.h"

/// ONNX graphs whose weights come from another file.
namespace tessera::client {

/// Reads a model without the files of its external tensors. INVALID_ARGUMENT if it is not an ONNX model.
absl::StatusOr<onnx::ModelProto> readGraph(const std::string& path);
absl::Status writeGraph(const onnx::ModelProto& model, const std::string& path);

/// Replaces the content of a tensor by a reference to bytes of an external file.
void referTo(const std::string& location, int64_t offset, int64_t bytes, onnx::TensorProto& tensor);

struct BoundWeights {
  int bound = 0;   ///< initializers that take a tensor of the file
  int kept = 0;    ///< initializers that keep the model's values
  int merged = 0;  ///< initializers to which a low-rank product was added
};

/// Lets each initializer of the main graph that `tensors` name refer to that tensor of an external file at `location`:
/// the graph with other weights, without a copy of them. Every tensor must name an initializer with the same type and
/// shape; INVALID_ARGUMENT names those that do not.
absl::StatusOr<BoundWeights> bindWeights(const StoredTensors& tensors, const std::string& location,
                                         onnx::ModelProto& model);

}  // namespace tessera::client
