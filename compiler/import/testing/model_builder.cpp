#include "compiler/import/testing/model_builder.h"

#include <fstream>

#include "compiler/import/testing/reference_run.h"
#include "gtest/gtest.h"

namespace tessera::compiler {

ModelBuilder::ModelBuilder(int64_t opset) {
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  graph().set_name("test");
}

ModelBuilder& ModelBuilder::input(const std::string& name, const std::vector<int64_t>& shape, int type) {
  auto* info = graph().add_input();
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (int64_t dim : shape) {
    auto* entry = tensor->mutable_shape()->add_dim();
    if (dim < 0) {
      entry->set_dim_param("N");
    } else {
      entry->set_dim_value(dim);
    }
  }
  return *this;
}

ModelBuilder& ModelBuilder::output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}

onnx::NodeProto& ModelBuilder::node(const std::string& op, const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& outputs, const std::string& name) {
  auto* node = graph().add_node();
  node->set_op_type(op);
  node->set_name(name);
  for (const auto& input : inputs) node->add_input(input);
  for (const auto& output : outputs) node->add_output(output);
  return *node;
}

onnx::TensorProto& ModelBuilder::initializer(const std::string& name, const std::vector<int64_t>& shape,
                                             const std::vector<float>& values) {
  auto* tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t dim : shape) tensor->add_dims(dim);
  tensor->set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  return *tensor;
}

onnx::TensorProto& ModelBuilder::initializer(const std::string& name, const std::vector<int64_t>& values) {
  auto* tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t value : values) tensor->add_int64_data(value);
  return *tensor;
}

void setAttribute(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void setAttribute(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

void setAttribute(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

std::string writeFile(const std::string& bytes, const std::string& name) {
  const std::string path = testing::TempDir() + "/" + std::to_string(getpid()) + "-" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

absl::StatusOr<ImportedModel> importBytes(mlir::MLIRContext& context, const std::string& bytes,
                                          const ImportOptions& options) {
  const std::string path = writeFile(bytes);
  auto imported = importOnnx(context, path, options);
  std::remove(path.c_str());
  return imported;
}

}  // namespace tessera::compiler
