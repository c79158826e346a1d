#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/import/model_file.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace tessera::compiler {

/// Names of one graph or function body; what is not found here may be in the enclosing graph.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, Tensor> values;
  const FunctionAttributes* attributes = nullptr;  ///< of the call, in a function body
  const std::map<std::string, int64_t>* opsets = nullptr;

  const Tensor* find(const std::string& name) const;
};

/// One import: walks the model once and fills @main. Not reusable.
class GraphImporter {
 public:
  GraphImporter(mlir::MLIRContext& context, std::shared_ptr<const onnx::ModelProto> model,
                const ImportOptions& options);

  absl::StatusOr<ImportedModel> run();

 private:
  absl::Status readOpsets();
  absl::Status checkOperators(const onnx::GraphProto& graph);
  void collectUnsupported(const onnx::NodeProto& node, int index, const std::map<std::string, int64_t>& opsets,
                          std::vector<v1::Failure>& faults, std::set<std::string>& visited);

  absl::Status bindInputs(const onnx::GraphProto& graph, Scope& scope);
  absl::StatusOr<v1::TensorSpec> inputSpec(const onnx::ValueInfoProto& info,
                                           const std::vector<const onnx::ValueInfoProto*>& inputs,
                                           std::map<std::string, int64_t>& dim_params);
  absl::Status readInitializers(const onnx::GraphProto& graph, Scope& scope);
  absl::Status bindOutputs(const onnx::GraphProto& graph, Scope& scope);

  absl::Status lowerNodes(const onnx::GraphProto& graph, Scope& scope);
  absl::Status lowerNode(const onnx::NodeProto& proto, int index, Scope& scope);
  absl::StatusOr<std::vector<Tensor>> inlineGraph(const onnx::GraphProto& graph, const std::vector<Tensor>& arguments,
                                                  const Scope& outer);
  absl::StatusOr<std::vector<Tensor>> inlineFunction(const onnx::FunctionProto& function, Node& call);
  absl::StatusOr<std::vector<Tensor>> applyOperator(const Operator& op, Node& node);
  /// The node's results as constants when all of its inputs are; nothing when it has to run.
  absl::StatusOr<std::optional<std::vector<Tensor>>> tryFold(const Operator& op, Node& node);
  absl::Status checkInputs(const Operator& op, const Node& node) const;

  Emitter emitter(const std::string& label);
  mlir::Value materialize(Emitter& e, const ConstantPtr& constant);
  mlir::Value weightArgument(Emitter& e, const ConstantPtr& constant);

  mlir::MLIRContext& context_;
  std::shared_ptr<const onnx::ModelProto> model_;
  const ImportOptions& options_;
  ExternalData external_;
  std::map<std::string, int64_t> opsets_;  ///< domain -> version
  std::map<std::string, std::map<std::string, int64_t>> function_opsets_;
  std::map<std::string, const onnx::FunctionProto*> functions_;  ///< "domain:name"

  ImportedModel result_;
  mlir::func::FuncOp main_;
  std::unordered_map<const void*, mlir::Value> materialized_;  ///< by Constant
  std::vector<ConstantPtr> kept_;                              ///< keeps those addresses in use
  int64_t fold_steps_;
  int64_t nodes_ = 0;
  int function_depth_ = 0;
};

/// `constant` as an arith.constant.
mlir::Value inlineConstant(Emitter& e, const Constant& constant);

}  // namespace tessera::compiler
