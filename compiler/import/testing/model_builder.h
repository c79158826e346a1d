#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {

/// Builds small ONNX models for tests, well-formed or hostile.
class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset = 13);

  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  /// A dimension below 0 is symbolic, named "N".
  ModelBuilder& input(const std::string& name, const std::vector<int64_t>& shape, int type = onnx::TensorProto::FLOAT);
  ModelBuilder& output(const std::string& name);
  /// The node, to be given attributes; `name` may be empty.
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = "");
  onnx::TensorProto& initializer(const std::string& name, const std::vector<int64_t>& shape,
                                 const std::vector<float>& values);
  onnx::TensorProto& initializer(const std::string& name, const std::vector<int64_t>& values);  ///< i64, rank 1

  onnx::ModelProto model;
};

void setAttribute(onnx::NodeProto& node, const std::string& name, int64_t value);
void setAttribute(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values);
void setAttribute(onnx::NodeProto& node, const std::string& name, const std::string& value);

/// Inputs and outputs of a run, as the bytes of dense tensors.
template <typename T>
std::string bytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
template <typename T>
std::vector<T> valuesOf(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A file with these bytes in the test's scratch folder.
std::string writeFile(const std::string& bytes, const std::string& name = "model.onnx");

/// Writes and imports the bytes with a context that can also run the result.
absl::StatusOr<ImportedModel> importBytes(mlir::MLIRContext& context, const std::string& bytes,
                                          const ImportOptions& options = {});

}  // namespace tessera::compiler
