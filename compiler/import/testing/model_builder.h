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
  /// Adds an input. A dimension below 0 is symbolic, named "N".
  ModelBuilder& input(const std::string& name, const std::vector<int64_t>& shape, int type = onnx::TensorProto::FLOAT);
  ModelBuilder& output(const std::string& name);
  /// Adds a node, for the caller to set attributes; `name` may be empty.
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

/// Returns inputs and outputs of a run as the bytes of dense tensors.
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

/// Writes the bytes to a file in the test's scratch folder and returns its path.
std::string writeFile(const std::string& bytes, const std::string& name = "model.onnx");

/// Writes and imports the bytes, with a context that can also run the result.
absl::StatusOr<ImportedModel> importBytes(mlir::MLIRContext& context, const std::string& bytes,
                                          const ImportOptions& options = {});

}  // namespace tessera::compiler
