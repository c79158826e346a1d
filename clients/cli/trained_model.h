#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// The values of a parameter after a training.
struct TrainedValue {
  std::string name;  ///< of the model's initializer
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::string bytes;
};

/// Writes the ONNX model at `model` with other values of these initializers to `path`; those of f16 and bf16 are
/// rounded from f32. External files of the other tensors are not copied, so a model that has some must be written into
/// its folder. INVALID_ARGUMENT names a value that is no initializer of the model, or of another type or shape.
absl::Status writeTrainedModel(const std::string& model, const std::vector<TrainedValue>& values,
                               const std::string& path);

}  // namespace tessera::client
