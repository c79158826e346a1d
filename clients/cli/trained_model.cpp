#include "clients/cli/trained_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/bound_weights.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

/// The nearest bf16; the even one of two.
uint16_t bf16Of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);  // a quiet one
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t f16Of(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

std::string rounded(const std::string& bytes, uint16_t (*narrow)(float)) {
  std::string result(bytes.size() / sizeof(float) * sizeof(uint16_t), '\0');
  for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    const uint16_t bits = narrow(value);
    std::memcpy(result.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
  return result;
}

/// The bytes of a value in the type of its initializer.
absl::StatusOr<std::string> bytesFor(const onnx::TensorProto& tensor, const TrainedValue& value) {
  if (std::ranges::equal(tensor.dims(), value.shape)) {
    const auto type = tensor.data_type();
    if (value.dtype == v1::DATA_TYPE_F32 && type == onnx::TensorProto::FLOAT) return value.bytes;
    if (value.dtype == v1::DATA_TYPE_F64 && type == onnx::TensorProto::DOUBLE) return value.bytes;
    if (value.dtype == v1::DATA_TYPE_F32 && type == onnx::TensorProto::FLOAT16) return rounded(value.bytes, f16Of);
    if (value.dtype == v1::DATA_TYPE_F32 && type == onnx::TensorProto::BFLOAT16) return rounded(value.bytes, bf16Of);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "initializer '", tensor.name(), "' is ",
      onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(tensor.data_type())), "[",
      absl::StrJoin(tensor.dims(), ","), "] in the model, and the training step has another type or the shape [",
      absl::StrJoin(value.shape, ","), "]; accepted is the model that the step was compiled from"));
}

}  // namespace

absl::Status writeTrainedModel(const std::string& model, const std::vector<TrainedValue>& values,
                               const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(onnx::ModelProto graph, readGraph(model));
  std::map<std::string_view, const TrainedValue*> left;
  for (const TrainedValue& value : values) left.emplace(value.name, &value);
  std::string external;  // a tensor that stays in another file
  for (onnx::TensorProto& tensor : *graph.mutable_graph()->mutable_initializer()) {
    const auto found = left.find(tensor.name());
    if (found == left.end()) {
      if (tensor.data_location() == onnx::TensorProto::EXTERNAL) external = tensor.name();
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(std::string bytes, bytesFor(tensor, *found->second));
    onnx::TensorProto trained;
    trained.set_name(tensor.name());
    trained.set_data_type(tensor.data_type());
    *trained.mutable_dims() = tensor.dims();
    trained.set_raw_data(std::move(bytes));
    tensor = std::move(trained);
    left.erase(found);
  }
  if (!left.empty())
    return absl::InvalidArgumentError(absl::StrCat(model, " has no initializer '", left.begin()->second->name,
                                                   "'; accepted is the model that the step was compiled from"));
  std::error_code error;
  const auto folder = [&](const std::string& file) {
    return fs::weakly_canonical(fs::path(file), error).parent_path();
  };
  if (!external.empty() && folder(path) != folder(model))
    return absl::InvalidArgumentError(absl::StrCat("initializer '", external, "' is in a file beside ", model,
                                                   "; write the trained model into the same folder"));
  return writeGraph(graph, path);
}

}  // namespace tessera::client
