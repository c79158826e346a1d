#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/imported_model.h"
#include "mlir/IR/MLIRContext.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

struct ImportOptions {
  std::map<std::string, std::vector<int64_t>> input_shapes;  ///< sizes of symbolic dimensions, by input
  std::map<std::string, std::string> external_data;          ///< location -> local file
  std::map<std::string, v1::TensorValue> fixed_inputs = {};  ///< inputs with a known value; ONNX only
  /// Sizes of symbolic dimensions by name, in all inputs. -n, for ONNX only, makes the dimension a range: its size is
  /// chosen by each run, from 0 to the bound n (ImportedModel::dimensions).
  std::map<std::string, int64_t> dimensions = {};
  bool record_nodes = false;  ///< fills ImportedModel.graph
  /// If only the then_branch of an If can be lowered for the given sizes, and its condition compares an integer input
  /// with a constant, fixes the input to that constant. Otherwise runs that take the other branch fail.
  bool fix_inputs_of_branches = true;
  /// Chooses initializers of floating-point types, by name: these become inputs whose defaults are their values
  /// (variables.cpp). 16-bit ones are inputs of f32, which the module rounds. ONNX only; null: none.
  std::function<bool(const std::string& initializer)> is_variable = nullptr;
};

/// Parses and lowers an ONNX model. `path` is untrusted: sizes, depth and counts are checked in wide arithmetic before
/// any allocation. Errors carry a Failure that names the node.
absl::StatusOr<ImportedModel> importOnnx(mlir::MLIRContext& context, const std::string& path,
                                         const ImportOptions& options);

/// Finds every node of an ONNX model that importOnnx would refuse, with the reason, in one pass, and lists the
/// operators and inputs that the model uses. An unbound dimension gets an assumed size, and the check continues. An
/// error status means that the file could not be read.
absl::StatusOr<v1::CheckReport> checkOnnx(mlir::MLIRContext& context, const std::string& path,
                                          const ImportOptions& options);

/// Parses and lowers tensor expressions (language: compiler/import/expression/syntax.h).
absl::StatusOr<ImportedModel> importExpression(mlir::MLIRContext& context, const std::string& path,
                                               const ImportOptions& options);

/// Parses MLIR text: one function on static tensors in the linalg, tensor, arith, math and tosa dialects.
/// Inputs are named arg0, arg1, ..., outputs result0, ..., unless the function has tessera.input and
/// tessera.output attributes.
absl::StatusOr<ImportedModel> importMlir(mlir::MLIRContext& context, const std::string& path,
                                         const ImportOptions& options);

}  // namespace tessera::compiler
