#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"
#include "compiler/import/empty_extents.h"
#include "compiler/import/loop_body.h"
#include "compiler/import/model_error.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tessera::compiler {

/// Attributes of the call of a model-local function, to which nodes of its body may refer.
using FunctionAttributes = std::map<std::string, const onnx::AttributeProto*>;

class Node;

/// The services of the importer that a node uses.
struct NodeEnvironment {
  int64_t opset = 0;        ///< version of the node's domain
  std::string domain = {};  ///< empty for ONNX's own
  const FunctionAttributes* function_attributes = nullptr;
  std::function<absl::StatusOr<ConstantPtr>(const onnx::AttributeProto&)> read_tensor;
  /// Lowers a subgraph in place with `arguments` bound to its inputs; results are its outputs.
  std::function<absl::StatusOr<std::vector<Tensor>>(const onnx::GraphProto&, const std::vector<Tensor>& arguments)>
      inline_graph;
  /// The same for a subgraph that a run executes only if `condition` == `holds`.
  std::function<absl::StatusOr<std::vector<Tensor>>(const onnx::GraphProto&, const std::vector<Tensor>& arguments,
                                                    const Tensor& condition, bool holds)>
      inline_where;
  /// Every run that executes the node with `condition` == `holds` fails with `message`.
  std::function<void(const Tensor& condition, bool holds, const std::string& message)> refuse_runs;
  /// Lowers a loop that stays a loop; returns nothing if it must be unrolled (loop_body.h).
  std::function<absl::StatusOr<std::optional<LoopResults>>(const Node&, Emitter&, const LoopRequest&, LoopBuilder)>
      lower_loop;
  /// Returns the values of an integer tensor at examples of the ranges' sizes (shape_value_analysis.h); null if it
  /// depends on anything else.
  std::function<const std::vector<ConstantPtr>*(const Tensor& value)> examples;
  std::function<const std::vector<ConstantPtr>*(const Tensor& value)> examples_with_data;  ///< also for extents that
                                                                                           ///< the data decide
  std::function<std::optional<int64_t>(mlir::Value)>
      always;  ///< the value of an extent that is equal in every run (shape_value_analysis.h)
  std::function<bool(mlir::Value)> depends_on_ranges_only;  ///< whether only ranges decide it, with or without examples
  std::function<bool(mlir::Value, mlir::Value)> same_extent;
  std::function<bool(mlir::Value, mlir::Value, const std::string& reason)>
      restrict_to_equal;                                  ///< shape_value_analysis.h
  std::function<void(NonEmptyExtent)> require_non_empty;  ///< records an extent that must not be 0
  /// Records that the model would fit if the input that a condition depends on were fixed to the compared value. Set
  /// for nodes that every run reaches.
  std::function<void(const Tensor& condition)> suggest_fixing;
  /// Returns the integer that a condition compares an input of the model with, if it has that form.
  std::function<std::optional<int64_t>(const Tensor& condition)> value_compared;
  /// Returns the inputs of the model from which a value is computed if fixing them would make it a constant; otherwise
  /// none.
  std::function<std::vector<std::string>(const Tensor& value)> inputs_computing;
};

/// Sizes that decide a shape: constants, or shape values of ranges.
struct SizeList {
  std::vector<int64_t> most;  ///< at the bounds of all ranges
  std::vector<bool> follows;  ///< per element: whether it varies with the ranges
};

/// One node of the graph during lowering: its inputs and, checked, its attributes. Errors of accessors name the node
/// and the expected form. An attribute that no accessor has read is refused at the end, since leaving it out might
/// change the result.
class Node {
 public:
  Node(const onnx::NodeProto& proto, std::string label, std::vector<Tensor> inputs, NodeEnvironment environment);

  const std::string& label() const { return label_; }
  std::string opType() const;
  int64_t opset() const { return environment_.opset; }
  const std::string& domain() const { return environment_.domain; }

  int numInputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int index) const { return index < numInputs() && present(inputs_[index]); }
  const Tensor& in(int index) const { return inputs_[index]; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  std::vector<Tensor> exchangeInputs(std::vector<Tensor> inputs) { return std::exchange(inputs_, std::move(inputs)); }
  int numOutputs() const;
  bool wants(int output) const;  ///< whether the output has a name

  bool hasSubgraph() const;  ///< whether an attribute is a graph, which may read values of the enclosing graph

  bool hasAttribute(const std::string& name);
  void ignore(const std::string& name) { used_.insert(name); }  ///< for attributes without meaning at inference
  absl::StatusOr<int64_t> integer(const std::string& name, std::optional<int64_t> fallback = std::nullopt);
  absl::StatusOr<double> real(const std::string& name, std::optional<double> fallback = std::nullopt);
  absl::StatusOr<std::string> text(const std::string& name, std::optional<std::string> fallback = std::nullopt);
  absl::StatusOr<std::vector<int64_t>> integers(const std::string& name,
                                                std::optional<std::vector<int64_t>> fallback = std::nullopt);
  absl::StatusOr<std::vector<double>> reals(const std::string& name,
                                            std::optional<std::vector<double>> fallback = std::nullopt);
  absl::StatusOr<std::vector<std::string>> texts(const std::string& name,
                                                 std::optional<std::vector<std::string>> fallback = std::nullopt);
  absl::StatusOr<ConstantPtr> tensor(const std::string& name);
  absl::StatusOr<const onnx::GraphProto*> graph(const std::string& name);
  absl::StatusOr<bool> flag(const std::string& name, bool fallback);  ///< an integer, 0 or 1
  absl::StatusOr<v1::DataType> dataType(const std::string& name, std::optional<v1::DataType> fallback);
  absl::StatusOr<std::vector<Tensor>> inlineGraph(const onnx::GraphProto& graph, const std::vector<Tensor>& arguments) {
    return environment_.inline_graph(graph, arguments);
  }

  absl::StatusOr<std::vector<Tensor>> inlineWhere(const onnx::GraphProto& graph, const std::vector<Tensor>& arguments,
                                                  const Tensor& condition, bool holds) {
    return environment_.inline_where(graph, arguments, condition, holds);
  }
  void refuseRuns(const Tensor& condition, bool holds, const std::string& message) const {
    environment_.refuse_runs(condition, holds, message);
  }

  /// Emits a loop whose body is lowered once, by `build`, and runs for each iteration. Fails if an iteration changes
  /// the type or size of a carried value; unrolling such a loop may work. Returns nothing if the request or the body
  /// requires unrolling.
  absl::StatusOr<std::optional<LoopResults>> loop(Emitter& e, const LoopRequest& request, LoopBuilder build) const {
    return environment_.lower_loop(*this, e, request, build);
  }

  /// Returns an axis in [-rank, rank) as a non-negative one. `what` names its attribute or input.
  absl::StatusOr<int64_t> normalizeAxis(int64_t axis, int64_t rank, const std::string& what) const;
  absl::StatusOr<int64_t> axis(const std::string& name, std::optional<int64_t> fallback, int64_t rank);
  absl::StatusOr<std::vector<int64_t>> normalizeAxes(std::vector<int64_t> axes, int64_t rank,
                                                     const std::string& what) const;  ///< and distinct

  /// Returns the input as a constant: shapes are static, so sizes must be known at import.
  absl::StatusOr<ConstantPtr> constantInput(int index, const std::string& what) const;
  absl::StatusOr<std::vector<int64_t>> constantIntegers(int index, const std::string& what) const;
  /// Like constantInput() for sizes, which may vary with ranges: each such element is then an extent of the result.
  absl::StatusOr<SizeList> sizes(int index, const std::string& what) const;
  /// Returns element `at` of an input of sizes as an extent: tensor<i64>.
  Tensor sizeAt(Emitter& e, int index, int64_t at) const;
  /// Whether `parts` divides an extent in every run. An extent computed from data is assumed to be divisible, since the
  /// author of the model relies on it.
  bool divides(int64_t parts, mlir::Value extent) const;
  /// Returns the least and greatest value of an extent over the examples of its ranges; nothing if anything else
  /// decides it.
  std::optional<std::pair<int64_t, int64_t>> bounds(const Tensor& extent) const;
  /// Returns the value of an extent at the bounds of its ranges, unless it is greater at another example. Nothing if
  /// anything else decides it.
  std::optional<int64_t> extentBoundOf(const Tensor& extent) const;
  /// Returns the value of an extent if it is equal in every run; nothing if it varies or if anything but ranges decides
  /// it.
  std::optional<int64_t> always(mlir::Value extent) const;
  /// Whether two extents are equal in every run.
  bool sameExtent(mlir::Value a, mlir::Value b) const;

  /// Makes two extents equal in every run, if that is possible, by refusing runs with sizes that are not multiples of
  /// some number; returns whether it was possible. `what` is the part of the runs' error that says what only the
  /// accepted sizes allow: "the image can be cut in blocks".
  bool makeEqualForMultiples(mlir::Value a, mlir::Value b, const std::string& what) const;
  /// Refuses runs in which `result` is 0 although `from` is not. The error contains the extent between `before` and
  /// `after`.
  void mustNotBecomeEmpty(const Tensor& from, mlir::Value result, std::string before, std::string after) const;

  absl::StatusOr<Shape> broadcastAll() const;                           ///< of all given inputs
  absl::Status requireInputs(std::initializer_list<int> needed) const;  ///< also absent ones between them
  absl::Status requireRank(int input, int64_t least, int64_t most = INT64_MAX) const;
  absl::Status requireShape(int input, const Shape& shape,
                            std::string_view name = {}) const;            ///< an absent one is accepted
  absl::Status checkResult(const Shape& shape, v1::DataType type) const;  ///< within limits.h

  absl::Status invalid(const std::string& message, ErrorDetails details = {}) const;
  absl::Status unsupported(const std::string& message, ErrorDetails details = {}) const;
  /// Returns the error for a shape that depends on `value`, which is computed at run time. It says which inputs of the
  /// model to fix.
  absl::Status dependsOnRunTimeValue(const Tensor& value, const std::string& message, ErrorDetails details) const;

  /// Returns "--fix i=..." for each input of the model whose value would make `value` a constant; empty if there is
  /// none.
  std::string fixOf(const Tensor& value) const;
  /// Says which values of the model's inputs make `condition` equal `wanted`: "give input 'sr' the value 16000". Empty
  /// if no small input decides it.
  std::string inputsFor(const Tensor& condition, bool wanted) const;
  void suggestFixing(const Tensor& condition) const {
    if (environment_.suggest_fixing) environment_.suggest_fixing(condition);
  }

  /// Returns all attributes by name, for the body of a function that this node calls. References to attributes of an
  /// enclosing function are resolved.
  FunctionAttributes resolvedAttributes();

  /// Returns an error that names the attributes that no accessor has read.
  absl::Status checkAllUsed() const;

 private:
  static bool present(const Tensor& tensor) { return tensor.value || tensor.constant || tensor.sequence; }
  std::string named() const;  ///< the node's name in errors
  absl::Status failed(v1::Failure::Reason reason, const std::string& message, ErrorDetails details) const;
  absl::Status missing(const std::string& name) const;
  absl::Status wrongType(const onnx::AttributeProto& attribute, const std::string& accepted) const;
  const onnx::AttributeProto* find(const std::string& name);

  const onnx::NodeProto& proto_;
  std::string label_;
  std::vector<Tensor> inputs_;
  NodeEnvironment environment_;
  /// Optimization hints of versions before 6 and 7.
  std::set<std::string> used_ = {"consumed_inputs", "output_sequence"};
};

}  // namespace tessera::compiler
