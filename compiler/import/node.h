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
#include "compiler/import/fault.h"
#include "compiler/import/loop_body.h"
#include "compiler/import/refused_sizes.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tessera::compiler {

/// Attributes of the call of a model-local function, which its body's nodes may refer to.
using FunctionAttributes = std::map<std::string, const onnx::AttributeProto*>;

class Node;

/// What a node needs of the import around it.
struct NodeEnvironment {
  int64_t opset = 0;        ///< version of the node's domain
  std::string domain = {};  ///< empty for ONNX's own
  const FunctionAttributes* function_attributes = nullptr;
  std::function<absl::StatusOr<ConstantPtr>(const onnx::AttributeProto&)> read_tensor;
  /// Lowers a subgraph in place with `arguments` bound to its inputs; results are its outputs.
  std::function<absl::StatusOr<std::vector<Tensor>>(const onnx::GraphProto&, const std::vector<Tensor>& arguments)>
      inline_graph;
  /// Lowers a loop that stays one.
  std::function<absl::StatusOr<LoopResults>(const Node&, Emitter&, const LoopRequest&, LoopBuilder)> lower_loop;
  /// What integers that follow ranges are at examples of their sizes (followed.h); null for others.
  std::function<const std::vector<ConstantPtr>*(const Tensor& value)> examples;
  std::function<const std::vector<ConstantPtr>*(const Tensor& value)> examples_by_data;  ///< of counts of the data, too
  std::function<std::optional<int64_t>(mlir::Value)>
      always;                                        ///< the number that an extent is in every run (followed.h)
  std::function<bool(mlir::Value)> by_counts_alone;  ///< whether ranges decide it, be there examples or not
  std::function<bool(mlir::Value, mlir::Value)> same_extent;
  std::function<bool(mlir::Value, mlir::Value, const std::string& reason)> restrict_to_same;  ///< followed.h
  std::function<void(DerivedExtent)> derived;  ///< notes an extent of which some has to be left
  /// Notes that the model fits its sizes with the one input behind a condition fixed to what it is compared with; set
  /// for nodes that every run reaches.
  std::function<void(const Tensor& condition)> suggest_fixing;
  /// The integer that a condition compares an input of the model with, where it does.
  std::function<std::optional<int64_t>(const Tensor& condition)> value_compared;
  /// Inputs of the model that a value is computed from, when fixing them would make it a constant; else none.
  std::function<std::vector<std::string>(const Tensor& value)> inputs_behind;
};

/// Sizes that decide a shape: constants, or what follows the counts of ranges.
struct SizeList {
  std::vector<int64_t> most;  ///< as they are for the greatest sizes of all ranges
  std::vector<bool> follows;  ///< per element: whether it is another for other sizes
};

/// One node of the graph while it is lowered: its inputs and, checked, its attributes.
/// Every accessor's error names the node and what it should have been. An attribute that no accessor asked
/// for is refused at the end, since leaving it out might change what the model computes.
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
  bool wants(int output) const;  ///< whether that output has a name

  bool hasSubgraph() const;  ///< whether an attribute is a graph, which may read values of the graph around it

  bool hasAttribute(const std::string& name);
  void ignore(const std::string& name) { used_.insert(name); }  ///< meaningless at inference
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

  /// Emits a loop whose body is lowered once, by `build`, and runs for each iteration. Fails where an iteration gives
  /// another type or size than the one before: written out such a loop may work.
  absl::StatusOr<LoopResults> loop(Emitter& e, const LoopRequest& request, LoopBuilder build) const {
    return environment_.lower_loop(*this, e, request, build);
  }

  /// An axis in [-rank, rank), made non-negative. `what` is the attribute or input it came from.
  absl::StatusOr<int64_t> normalizeAxis(int64_t axis, int64_t rank, const std::string& what) const;
  absl::StatusOr<int64_t> axis(const std::string& name, std::optional<int64_t> fallback, int64_t rank);
  absl::StatusOr<std::vector<int64_t>> normalizeAxes(std::vector<int64_t> axes, int64_t rank,
                                                     const std::string& what) const;  ///< and distinct

  /// The input as a constant: shapes are static, so what decides a shape must be known at import.
  absl::StatusOr<ConstantPtr> constantInput(int index, const std::string& what) const;
  absl::StatusOr<std::vector<int64_t>> constantIntegers(int index, const std::string& what) const;
  /// The same of sizes, which may follow ranges: each such element is then an extent of the result.
  absl::StatusOr<SizeList> sizes(int index, const std::string& what) const;
  /// Element `at` of an input of sizes, as an extent: tensor<i64>.
  Tensor sizeAt(Emitter& e, int index, int64_t at) const;
  /// Whether an extent can be cut in `parts` whatever the run: one that was computed from data is as the model's author
  /// knows.
  bool divides(int64_t parts, mlir::Value extent) const;
  /// The least and the greatest that an extent is at the examples of the ranges that decide it; nothing when something
  /// else does.
  std::optional<std::pair<int64_t, int64_t>> bounds(const Tensor& extent) const;
  /// What an extent that ranges alone decide is at their greatest sizes, unless it is more at another example.
  std::optional<int64_t> mostOf(const Tensor& extent) const;
  /// The number that an extent is in every run; nothing where it varies, or something else than ranges decides it.
  std::optional<int64_t> always(mlir::Value extent) const;
  /// Whether two extents are the same number in every run.
  bool sameExtent(mlir::Value a, mlir::Value b) const;

  /// Whether two extents are the same number in every run once sizes that are no multiples of some number are refused.
  /// `what` holds of the others.
  bool sameOfMultiples(mlir::Value a, mlir::Value b, const std::string& what) const;
  /// Runs of sizes for which nothing is left of `from` are refused: the error has its extent between `before` and
  /// `after`.
  void mustLeaveSome(const Tensor& from, mlir::Value result, std::string before, std::string after) const;

  absl::StatusOr<Shape> broadcastAll() const;                           ///< of all inputs given
  absl::Status requireInputs(std::initializer_list<int> needed) const;  ///< where absent ones lie between those needed
  absl::Status requireRank(int input, int64_t least, int64_t most = INT64_MAX) const;
  absl::Status requireShape(int input, const Shape& shape, std::string_view name = {}) const;  ///< one left out fits
  absl::Status checkResult(const Shape& shape, v1::DataType type) const;                       ///< within limits.h

  absl::Status invalid(const std::string& message, FaultDetails details = {}) const;
  absl::Status unsupported(const std::string& message, FaultDetails details = {}) const;
  /// A shape depends on `value`, which is computed at run time. Says which inputs of the model to fix.
  absl::Status knownTooLate(const Tensor& value, const std::string& message, FaultDetails details) const;

  /// "--fix i=..." for each input of the model whose value would make `value` a constant; empty when none would.
  std::string fixOf(const Tensor& value) const;
  /// The same of a value that makes a condition true, or false; where it compares one input with a number, that number.
  std::string fixOf(const Tensor& condition, bool wanted) const;
  void suggestFixing(const Tensor& condition) const {
    if (environment_.suggest_fixing) environment_.suggest_fixing(condition);
  }

  /// All attributes by name, for the body of a function this node calls; references to the attributes of a
  /// function around this node are resolved.
  FunctionAttributes resolvedAttributes();

  /// An error naming the attributes that nothing asked for.
  absl::Status checkAllUsed() const;

 private:
  static bool present(const Tensor& tensor) { return tensor.value || tensor.constant || tensor.sequence; }
  std::string named() const;  ///< as errors call the node
  absl::Status failed(v1::Failure::Reason reason, const std::string& message, FaultDetails details) const;
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
