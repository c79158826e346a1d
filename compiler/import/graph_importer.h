#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/empty_extents.h"
#include "compiler/import/import.h"
#include "compiler/import/model_check.h"
#include "compiler/import/model_file.h"
#include "compiler/import/named_dimensions.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/shape_value_analysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace tessera::compiler {

/// The names of one graph or function body. Other names may be defined in the enclosing graph.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, Tensor> values;
  const FunctionAttributes* attributes = nullptr;  ///< of the call, in a function body
  const std::map<std::string, int64_t>* opsets = nullptr;

  const Tensor* find(const std::string& name) const;
};

/// Returns the version of a domain that a model or function with imports `opsets` uses.
std::optional<int64_t> importedVersion(const std::map<std::string, int64_t>& opsets, const std::string& domain);

/// Returns the declared shape of an input if all its sizes are numbers.
std::optional<Shape> declaredShape(const onnx::ValueInfoProto& info);

/// One import: walks the model once and fills @main. Use each object once.
class GraphImporter {
 public:
  /// `fix_defaults`: treats the default values of inputs as constants.
  GraphImporter(mlir::MLIRContext& context, std::shared_ptr<const onnx::ModelProto> model, const ImportOptions& options,
                bool fix_defaults = false);

  absl::StatusOr<ImportedModel> run();
  /// After run(): whether inputs have default values that a run may replace. A failed import may succeed with these as
  /// constants.
  bool hasDefaults() const { return !defaults_.empty(); }

  /// After an error: the value of an input with which the import would succeed, because only the branch of an If that
  /// this value selects fits the sizes.
  const std::optional<v1::TensorValue>& inputToFix() const { return input_to_fix_; }

  /// Walks the whole model regardless of errors, and collects every problem in `problems`. `report` gets the operators
  /// and inputs that the model uses. The resulting module must not be used.
  void check(ModelCheck& problems, v1::CheckReport& report);

 private:
  void beginModule();
  absl::Status readOpsets();
  void readOpsetsLeniently();
  absl::Status checkOperators(const onnx::GraphProto& graph);
  struct NodeVisit {
    const onnx::NodeProto& node;
    int index;  ///< in its graph
    const std::map<std::string, int64_t>& opsets;
    bool is_call;  ///< calls a function of the model
  };
  using Visitor = std::function<void(const NodeVisit&)>;
  /// Visits a node of the main graph, the nodes of its subgraphs and, once for each function, the nodes of the
  /// functions that it calls.
  void visitNodes(const onnx::NodeProto& node, int index, const Visitor& visit, std::set<std::string>& entered) const;
  void visitWithSubgraphs(const onnx::NodeProto& node, int index, const std::map<std::string, int64_t>& opsets,
                          const Visitor& visit, std::vector<std::string>& calls) const;
  /// Returns a failure without reason and message if the operator is not in the table; its remedy depends on the
  /// domain.
  std::optional<v1::Failure> unsupportedOperator(const NodeVisit& visit) const;
  /// In a check, records the error and returns OK; otherwise returns `status`.
  absl::Status tolerate(absl::Status status);

  // The following run in a check only (check_onnx.cpp).
  /// Defines the results of a failed node: with their declared types, or as unknown values.
  void standInForResults(const onnx::NodeProto& proto, Scope& scope);
  /// Checks the subgraphs of a failed node that its lowering did not reach.
  void checkOtherBranches(const onnx::NodeProto& proto, Scope& scope);
  /// Returns a value of the type that the model declares for `name`; nothing if the type is not declared.
  std::optional<Tensor> declaredValue(const std::string& name);
  /// Fills declared_ from the model's value_info and outputs.
  void readDeclaredTypes(const onnx::GraphProto& graph);
  /// Clears declared_ if the declared type of a computed value is wrong: then the others are not reliable either.
  void compareWithDeclared(const std::string& name, const Tensor& value);

  absl::Status bindInputs(const onnx::GraphProto& graph, Scope& scope);
  absl::StatusOr<v1::TensorSpec> inputSpec(const onnx::ValueInfoProto& info,
                                           const std::vector<const onnx::ValueInfoProto*>& inputs,
                                           std::map<std::string, int64_t>& dim_params);
  /// Moves the default values of inputs from the scope to defaults_.
  void findDefaults(const onnx::GraphProto& graph, Scope& scope);
  /// Moves the defaults that must be constants to fixed_.
  void fixDefaults();
  /// Makes the initializers that ImportOptions.is_variable chooses inputs with default values.
  absl::Status bindVariables(const onnx::GraphProto& graph, Emitter& e, Scope& scope);
  /// Checks the given values of inputs against the graph and keeps them as constants.
  absl::Status readFixedInputs(const onnx::GraphProto& graph, const Scope& scope);
  absl::StatusOr<ConstantPtr> fixedValue(const onnx::ValueInfoProto& info, const v1::TensorValue& given) const;
  /// Implements NodeEnvironment.suggest_fixing.
  void suggestFixing(const Tensor& condition);
  /// Implements NodeEnvironment.value_compared.
  std::optional<int64_t> valueCompared(const Tensor& condition) const;
  /// Implements NodeEnvironment.inputs_computing.
  std::vector<std::string> inputsComputing(const Tensor& value) const;
  /// Returns the shape that the caller gave for an input, alone or with a value; null if none.
  const Shape* givenShape(const std::string& input) const;
  /// Adds the arguments for the sizes of ranges, and marks the bounded dimensions of inputs.
  absl::Status bindRanges(const std::vector<const onnx::ValueInfoProto*>& inputs, Scope& scope);
  /// Marks a range. `extent` is its size; `dimension` its position in result_.dimensions.
  absl::Status markRange(int dimension, mlir::Value extent, const std::vector<const onnx::ValueInfoProto*>& inputs,
                         Scope& scope);
  absl::Status readInitializers(const onnx::GraphProto& graph, Scope& scope);
  absl::Status defineInitializer(const std::string& name, absl::StatusOr<ConstantPtr> constant, Scope& scope);
  /// Checks an output of the graph; `names` are those of earlier outputs.
  absl::Status checkOutput(const onnx::ValueInfoProto& output, const Scope& scope, std::set<std::string>& names) const;
  absl::Status bindOutputs(const onnx::GraphProto& graph, Scope& scope);

  absl::Status lowerNodes(const onnx::GraphProto& graph, Scope& scope);
  absl::Status lowerNode(const onnx::NodeProto& proto, int index, Scope& scope);
  /// Records a node of the main graph with the operations it became: all after `last` in @main.
  void recordNode(const onnx::NodeProto& proto, int index, const Scope& scope, mlir::Operation* last);
  absl::StatusOr<std::vector<Tensor>> inlineGraph(const onnx::GraphProto& graph, const std::vector<Tensor>& arguments,
                                                  const Scope& outer);
  absl::StatusOr<std::vector<Tensor>> inlineFunction(const onnx::FunctionProto& function, Node& call);
  absl::StatusOr<std::vector<Tensor>> applyOperator(const Operator& op, Node& node);
  /// Evaluates the node if all of its inputs are constants; returns nothing if it must run.
  absl::StatusOr<std::optional<std::vector<Tensor>>> tryFold(const Operator& op, Node& node);
  absl::Status checkInputs(const Operator& op, const Node& node) const;

  // Lowers loops that stay loops (loop_body.h).
  absl::StatusOr<std::optional<LoopResults>> lowerLoopBody(const Node& node, Emitter& outer, LoopRequest request,
                                                           LoopBuilder build);
  absl::StatusOr<LoopResults> lowerInFunction(const Node& node, Emitter& outer, const LoopRequest& request,
                                              LoopBuilder build);
  mlir::func::FuncOp beginLoopBody(mlir::Location loc);
  absl::Status fillLoopBody(const Node& node, const LoopRequest& request, LoopBuilder build, mlir::func::FuncOp body,
                            BodyInterface& border);
  static absl::Status checkLoopYield(const Node& node, const LoopRequest& request, const LoopYield& yield,
                                     mlir::func::FuncOp body);
  LoopResults callLoopBody(Emitter& outer, const LoopRequest& request, mlir::func::FuncOp body,
                           const BodyInterface& border);
  void discardLoopBody(mlir::func::FuncOp body);

  // Branches that cannot be lowered are errors of the runs that take them (run_faults.cpp).
  /// Lowers a subgraph that a run executes only if `condition` == `holds`. Without a condition, all runs execute it.
  absl::StatusOr<std::vector<Tensor>> inlineWhere(const onnx::GraphProto& graph, const std::vector<Tensor>& arguments,
                                                  const Tensor& condition, bool holds, const Scope& outer);
  /// Every run that executes the node being lowered with `condition` == `holds` fails with `message`.
  void refuseRuns(const Tensor& condition, bool holds, const std::string& message);
  struct RunFaults {
    Tensor found;         ///< i64: 0, or the number of the run's first error, which is its position in run_faults + 1
    size_t messages = 0;  ///< size of run_faults
  };
  RunFaults runFaults() const { return {fault_, result_.run_faults.size()}; }
  /// Discards the run errors recorded after `before`: their nodes are lowered again, or no run executes them.
  void rewindTo(const RunFaults& before);

  Emitter emitter(const std::string& label);
  mlir::Value materialize(Emitter& e, const ConstantPtr& constant);
  mlir::Value weightArgument(Emitter& e, const ConstantPtr& constant);

  mlir::MLIRContext& context_;
  std::shared_ptr<const onnx::ModelProto> model_;
  const ImportOptions& options_;
  int64_t sparse_bytes_ = 0;  ///< of sparse tensors after expansion
  ExternalData external_;
  std::map<std::string, int64_t> opsets_;  ///< domain -> version
  std::map<std::string, std::map<std::string, int64_t>> function_opsets_;
  std::map<std::string, const onnx::FunctionProto*> functions_;  ///< "domain:name"

  const bool fix_defaults_;
  std::map<std::string, ConstantPtr> fixed_;     ///< inputs with a given value
  std::map<std::string, ConstantPtr> defaults_;  ///< inputs that a run may leave out

  NamedDimensions dimensions_;  ///< of the inputs

  ImportedModel result_;
  mlir::func::FuncOp main_;
  mlir::Block* block_ = nullptr;  ///< insertion block: @main's, or a loop body's
  int loops_ = 0;                 ///< number of bodies, for their names
  /// Bodies of failed lowerings. They stay alive, because facts about values are keyed by address.
  std::vector<mlir::OwningOpRef<mlir::func::FuncOp>> discarded_;
  ShapeValueAnalysis shape_values_;                ///< integers of @main that depend on ranges and extents alone
  std::vector<NonEmptyExtent> non_empty_extents_;  ///< extents that must not become 0, recorded during lowering
  int uncertain_ = 0;                              ///< nesting of branches and loop bodies, which a run may not reach
  std::unordered_map<const void*, mlir::Value> materialized_;  ///< emitted constants, by address of the Constant
  std::vector<ConstantPtr> kept_;                              ///< keeps the addresses in materialized_ valid
  int64_t fold_steps_;                            ///< budget of scalar operations for nodes with large constants
  int64_t small_fold_steps_;                      ///< budget for nodes with small constants
  int64_t nodes_ = 0;                             ///< lowered so far, including nodes of subgraphs and functions
  int function_depth_ = 0;                        ///< nesting of calls of model-local functions
  std::optional<v1::TensorValue> input_to_fix_;   ///< see inputToFix()
  std::vector<std::pair<Tensor, bool>> reached_;  ///< conditions under which runs execute the node being lowered
  Tensor fault_ = scalarI64(0);                   ///< RunFaults.found so far

  ModelCheck* check_ = nullptr;                     ///< set while a model is checked
  std::set<const onnx::GraphProto*> entered_;       ///< subgraphs that the check has visited
  bool stop_checking_ = false;                      ///< a limit was reached: the check ends
  std::map<std::string, v1::TensorSpec> declared_;  ///< by value name, as declared by the model
};

/// Returns the failure for a model without a graph.
absl::Status noGraph();

/// Emits `constant` as an arith.constant.
mlir::Value inlineConstant(Emitter& e, const Constant& constant);

}  // namespace tessera::compiler
