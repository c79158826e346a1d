// Computes a model's outputs by import and interpreter alone: the second oracle of the fuzz suites
// (tests/fuzz/cases/interpreter_oracle.py).
//
//   interpret_model MODEL.onnx INPUTS OUTPUTS
//
// INPUTS holds the dense bytes of the model's inputs, one behind the other; OUTPUTS gets those of its outputs. Prints a
// line "NAME TYPE EXTENT..." for each output.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>

#include "absl/strings/str_cat.h"
#include "compiler/import/element_type.h"
#include "compiler/import/testing/reference_run.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status interpretModel(const std::string& model_path, const std::string& inputs_path,
                            const std::string& outputs_path) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  TESSERA_ASSIGN_OR_RETURN(auto model, importOnnx(context, model_path, {}));
  std::ifstream file(inputs_path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> inputs;
  size_t at = 0;
  for (const v1::TensorSpec& spec : model.inputs) {
    const std::span<const int64_t> shape(spec.shape().data(), static_cast<size_t>(spec.shape_size()));
    const auto size = static_cast<size_t>(elementCount(shape)) * elementBytes(spec.dtype());
    if (at + size > bytes.size()) return absl::InvalidArgumentError(absl::StrCat(inputs_path, " is too short"));
    inputs.push_back(bytes.substr(at, size));
    at += size;
  }
  if (at != bytes.size()) return absl::InvalidArgumentError(absl::StrCat(inputs_path, " is too long"));
  std::vector<std::vector<int64_t>> shapes;
  TESSERA_ASSIGN_OR_RETURN(auto outputs, referenceRun(model, inputs, &shapes));
  std::ofstream written(outputs_path, std::ios::binary);
  for (size_t o = 0; o < outputs.size(); ++o) {
    written << outputs[o];
    std::cout << model.outputs[o].name() << " " << typeName(model.outputs[o].dtype());
    for (const int64_t extent : shapes[o]) std::cout << " " << extent;
    std::cout << "\n";
  }
  written.close();
  return written && std::cout.flush() ? absl::OkStatus()
                                      : absl::UnavailableError(absl::StrCat("cannot write ", outputs_path));
}

}  // namespace
}  // namespace tessera::compiler

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "interpret_model MODEL.onnx INPUTS OUTPUTS\n"), 2;
  const absl::Status status = tessera::compiler::interpretModel(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
