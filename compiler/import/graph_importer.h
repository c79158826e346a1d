#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/import/followed.h"
#include "compiler/import/import.h"
#include "compiler/import/model_check.h"
#include "compiler/import/model_file.h"
#include "compiler/import/named_dimensions.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/refused_sizes.h"
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

/// The version in which a model or function that imports `opsets` means the operators of a domain.
std::optional<int64_t> importedVersion(const std::map<std::string, int64_t>& opsets, const std::string& domain);

/// The shape that an input is declared with, where all its sizes are numbers.
std::optional<Shape> declaredShape(const onnx::ValueInfoProto& info);

/// One import: walks the model once and fills @main. Not reusable.
class GraphImporter {
 public:
  /// `fix_defaults`: takes the default values of inputs as constants.
  GraphImporter(mlir::MLIRContext& context, std::shared_ptr<const onnx::ModelProto> model, const ImportOptions& options,
                bool fix_defaults = false);

  absl::StatusOr<ImportedModel> run();
  /// After run(): whether inputs have default values that a run may replace. Where the import failed, it may succeed
  /// with these as constants.
  bool hasDefaults() const { return !defaults_.empty(); }

  /// After an error that would not be one with an input of one value: of an If, the branch that this value takes alone
  /// fits the sizes.
  const std::optional<v1::TensorValue>& wouldFix() const { return would_fix_; }

  /// Walks the whole model whatever is wrong with it, and leaves every problem in `problems`. `report` gets what the
  /// model uses. The module it makes on the way is of no use.
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
    bool is_call;  ///< of a function of the model
  };
  using Visitor = std::function<void(const NodeVisit&)>;
  /// A node of the main graph with those of its subgraphs and, once for each function, of the functions it calls.
  void visitNodes(const onnx::NodeProto& node, int index, const Visitor& visit, std::set<std::string>& entered) const;
  void visitWithSubgraphs(const onnx::NodeProto& node, int index, const std::map<std::string, int64_t>& opsets,
                          const Visitor& visit, std::vector<std::string>& calls) const;
  /// A failure without reason and message when the operator is not in the table; its fix is by the operator's domain.
  std::optional<v1::Failure> unsupportedOperator(const NodeVisit& visit) const;
  /// While a model is checked: notes the error and answers OK.
  absl::Status tolerate(absl::Status status);
  void standInForResults(const onnx::NodeProto& proto, Scope& scope);
  void checkOtherBranches(const onnx::NodeProto& proto, Scope& scope);
  std::optional<Tensor> declaredValue(const std::string& name);
  void readDeclaredTypes(const onnx::GraphProto& graph);
  void compareWithDeclared(const std::string& name, const Tensor& value);

  absl::Status bindInputs(const onnx::GraphProto& graph, Scope& scope);
  absl::StatusOr<v1::TensorSpec> inputSpec(const onnx::ValueInfoProto& info,
                                           const std::vector<const onnx::ValueInfoProto*>& inputs,
                                           std::map<std::string, int64_t>& dim_params);
  /// Moves the default values of inputs from the scope to defaults_.
  void findDefaults(const onnx::GraphProto& graph, Scope& scope);
  /// Moves those that are constants all the same to fixed_.
  void fixDefaults();
  /// Checks the values given for inputs against the graph and keeps them as constants.
  absl::Status readFixedInputs(const onnx::GraphProto& graph, const Scope& scope);
  absl::StatusOr<ConstantPtr> fixedValue(const onnx::ValueInfoProto& info, const v1::TensorValue& given) const;
  /// NodeEnvironment.suggest_fixing
  void suggestFixing(const Tensor& condition);
  /// NodeEnvironment.value_compared
  std::optional<int64_t> valueCompared(const Tensor& condition) const;
  /// NodeEnvironment.inputs_behind
  std::vector<std::string> inputsBehind(const Tensor& value) const;
  /// The shape the caller gave for an input, by itself or with a value; null when neither.
  const Shape* givenShape(const std::string& input) const;
  /// Adds the inputs that say how much of each range counts, and marks the inputs' dimensions.
  absl::Status bindRanges(const std::vector<const onnx::ValueInfoProto*>& inputs, Scope& scope);
  /// `extent`: how much of a range, one of result_.dimensions, counts.
  absl::Status markRange(int dimension, mlir::Value extent, const std::vector<const onnx::ValueInfoProto*>& inputs,
                         Scope& scope);
  absl::Status readInitializers(const onnx::GraphProto& graph, Scope& scope);
  absl::Status defineInitializer(const std::string& name, absl::StatusOr<ConstantPtr> constant, Scope& scope);
  /// What is wrong with an output of the graph; `names` are those before it.
  absl::Status checkOutput(const onnx::ValueInfoProto& output, const Scope& scope, std::set<std::string>& names) const;
  absl::Status bindOutputs(const onnx::GraphProto& graph, Scope& scope);

  absl::Status lowerNodes(const onnx::GraphProto& graph, Scope& scope);
  absl::Status lowerNode(const onnx::NodeProto& proto, int index, Scope& scope);
  /// Notes a node of the main graph and what it became: all after `last` in @main.
  void recordNode(const onnx::NodeProto& proto, int index, const Scope& scope, mlir::Operation* last);
  absl::StatusOr<std::vector<Tensor>> inlineGraph(const onnx::GraphProto& graph, const std::vector<Tensor>& arguments,
                                                  const Scope& outer);
  absl::StatusOr<std::vector<Tensor>> inlineFunction(const onnx::FunctionProto& function, Node& call);
  absl::StatusOr<std::vector<Tensor>> applyOperator(const Operator& op, Node& node);
  /// The node's results as constants when all of its inputs are; nothing when it has to run.
  absl::StatusOr<std::optional<std::vector<Tensor>>> tryFold(const Operator& op, Node& node);
  absl::Status checkInputs(const Operator& op, const Node& node) const;

  // Loops that stay loops (loop_body.h).
  absl::StatusOr<LoopResults> lowerLoopBody(const Node& node, Emitter& outer, const LoopRequest& request,
                                            LoopBuilder build);
  mlir::func::FuncOp beginLoopBody(mlir::Location loc);
  absl::Status fillLoopBody(const Node& node, const LoopRequest& request, LoopBuilder build, mlir::func::FuncOp body,
                            BodyBorder& border);
  static absl::Status checkLoopYield(const Node& node, const LoopRequest& request, const LoopYield& yield,
                                     mlir::func::FuncOp body);
  LoopResults callLoopBody(Emitter& outer, const LoopRequest& request, mlir::func::FuncOp body,
                           const BodyBorder& border);
  void discardLoopBody(mlir::func::FuncOp body);

  Emitter emitter(const std::string& label);
  mlir::Value materialize(Emitter& e, const ConstantPtr& constant);
  mlir::Value weightArgument(Emitter& e, const ConstantPtr& constant);

  mlir::MLIRContext& context_;
  std::shared_ptr<const onnx::ModelProto> model_;
  const ImportOptions& options_;
  int64_t sparse_bytes_ = 0;  ///< of sparse tensors that were made dense
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
  mlir::Block* block_ = nullptr;  ///< where nodes are lowered to: @main's, or the body of a loop's
  int loops_ = 0;                 ///< bodies made so far, for their names
  /// Bodies that did not work. Their values are kept, since what is known of values goes by their addresses.
  std::vector<mlir::OwningOpRef<mlir::func::FuncOp>> discarded_;
  FollowedValues followed_;
  std::vector<DerivedExtent> derived_;                         ///< noted while nodes are lowered
  std::unordered_map<const void*, mlir::Value> materialized_;  ///< by Constant
  std::vector<ConstantPtr> kept_;                              ///< keeps those addresses in use
  int64_t fold_steps_;        ///< scalar operations left for nodes with large constants
  int64_t small_fold_steps_;  ///< for nodes with small ones
  int64_t nodes_ = 0;
  int function_depth_ = 0;
  std::optional<v1::TensorValue> would_fix_;

  ModelCheck* check_ = nullptr;                     ///< set while a model is checked
  std::set<const onnx::GraphProto*> entered_;       ///< subgraphs that a check has looked at
  bool stop_checking_ = false;                      ///< a limit was met: nothing more is looked at
  std::map<std::string, v1::TensorSpec> declared_;  ///< by value name; as long as what they say holds
};

/// The failure for a model without a graph.
absl::Status noGraph();

/// `constant` as an arith.constant.
mlir::Value inlineConstant(Emitter& e, const Constant& constant);

}  // namespace tessera::compiler
