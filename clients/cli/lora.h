#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx.pb.h"

namespace tessera::client {

struct LoraRequest {
  std::string path;                          ///< safetensors file with pairs MODULE.lora_A.weight, MODULE.lora_B.weight
  double scale = 1;                          ///< factor of the products; alpha / rank of the training
  std::map<std::string, std::string> files;  ///< of the model's external tensors, by location
  std::string merged_path;                   ///< written: the merged weights
  std::string merged_location;               ///< by which the model refers to that file
};

/// Adds scale * B * A (Hu et al., "LoRA", equation 3) to the initializer MODULE.weight for each pair, transposed where
/// the graph multiplies by the initializer as it is. Sums are of double precision and rounded once. Returns the number
/// of merged weights. INVALID_ARGUMENT names a tensor without its partner, a module without an initializer of float32
/// that products read, and shapes that do not fit.
absl::StatusOr<int> mergeLora(const LoraRequest& request, onnx::ModelProto& model);

}  // namespace tessera::client
