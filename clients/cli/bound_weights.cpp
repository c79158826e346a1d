#include "clients/cli/bound_weights.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::client {
namespace {

constexpr size_t kMaxNamed = 6;

/// The ONNX type of a stored tensor.
onnx::TensorProto::DataType onnxType(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_F64:
      return onnx::TensorProto::DOUBLE;
    case v1::DATA_TYPE_F32:
      return onnx::TensorProto::FLOAT;
    case v1::DATA_TYPE_F16:
      return onnx::TensorProto::FLOAT16;
    case v1::DATA_TYPE_BF16:
      return onnx::TensorProto::BFLOAT16;
    case v1::DATA_TYPE_I64:
      return onnx::TensorProto::INT64;
    case v1::DATA_TYPE_I32:
      return onnx::TensorProto::INT32;
    case v1::DATA_TYPE_I16:
      return onnx::TensorProto::INT16;
    case v1::DATA_TYPE_I8:
      return onnx::TensorProto::INT8;
    case v1::DATA_TYPE_U64:
      return onnx::TensorProto::UINT64;
    case v1::DATA_TYPE_U32:
      return onnx::TensorProto::UINT32;
    case v1::DATA_TYPE_U16:
      return onnx::TensorProto::UINT16;
    case v1::DATA_TYPE_U8:
      return onnx::TensorProto::UINT8;
    case v1::DATA_TYPE_BOOL:
      return onnx::TensorProto::BOOL;
    default:
      return onnx::TensorProto::UNDEFINED;
  }
}

std::string typeText(int type, const auto& shape) {
  return absl::StrCat(onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type)), "[",
                      absl::StrJoin(shape, ","), "]");
}

std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNamed);
  const std::string more = shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "";
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "), more);
}

}  // namespace

absl::StatusOr<onnx::ModelProto> readGraph(const std::string& path) {
  onnx::ModelProto model;
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  if (!model.ParseFromIstream(&in) || !model.has_graph())
    return absl::InvalidArgumentError(absl::StrCat(path, " is not an ONNX model"));
  return model;
}

absl::Status writeGraph(const onnx::ModelProto& model, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  if (!model.SerializeToOstream(&out) || !out.flush())
    return absl::ResourceExhaustedError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

void referTo(const std::string& location, int64_t offset, int64_t bytes, onnx::TensorProto& tensor) {
  onnx::TensorProto other;
  other.set_name(tensor.name());
  other.set_data_type(tensor.data_type());
  *other.mutable_dims() = tensor.dims();
  other.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location},
                                   {"offset", absl::StrCat(offset)},
                                   {"length", absl::StrCat(bytes)}}) {
    onnx::StringStringEntryProto& entry = *other.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  tensor = std::move(other);
}

absl::StatusOr<BoundWeights> bindWeights(const StoredTensors& tensors, const std::string& location,
                                         onnx::ModelProto& model) {
  BoundWeights result;
  std::set<std::string> used;
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const auto found = tensors.find(tensor.name());
    if (found == tensors.end()) {
      ++result.kept;
      continue;
    }
    const StoredTensor& stored = found->second;
    const auto type = onnxType(stored.dtype);
    if (type != tensor.data_type() || !std::ranges::equal(stored.shape, tensor.dims()))
      return absl::InvalidArgumentError(absl::StrCat("weight '", tensor.name(), "': the file of weights has ",
                                                     typeText(type, stored.shape), ", the model has ",
                                                     typeText(tensor.data_type(), tensor.dims())));
    referTo(location, stored.offset, stored.bytes, tensor);
    used.insert(tensor.name());
    ++result.bound;
  }
  std::vector<std::string> unknown;
  for (const auto& [name, stored] : tensors)
    if (!used.contains(name)) unknown.push_back(absl::StrCat("'", name, "'"));
  if (!unknown.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("the file of weights has tensors that the model does not have: ", listed(unknown),
                     "; accepted are names of the model's initializers"));
  return result;
}

}  // namespace tessera::client
