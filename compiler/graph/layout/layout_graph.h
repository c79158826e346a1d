#pragma once

#include <array>
#include <limits>
#include <vector>

#include "compiler/graph/layout/labelling.h"
#include "compiler/graph/layout/layout_cost.h"
#include "compiler/graph/layout/layout_rewrite.h"
#include "compiler/graph/layout/layout_roles.h"

namespace tessera::compiler {

/// The cost of a label that must not be chosen.
inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

/// An operation that supports several layouts. Its activations share one variable of the problem, or have two where
/// input and output may differ: convolutions, channel shuffles.
struct LayoutNode {
  enum Kind { kGeneric, kPad, kConcat, kSlice, kFlatten };
  mlir::Operation* op = nullptr;
  Kind kind = kGeneric;
  llvm::SmallVector<OperandForm> forms;  ///< inputs, then results; without layouts
  llvm::SmallVector<int> variables;      ///< per form; -1 for an operand that is not an activation
  bool anchor = false;                   ///< has preferred layouts

  mlir::Value value(size_t form) const;
};

/// Returns how many input channels of a product an instruction of the target adds at once; 1 without such an
/// instruction.
int64_t inputsAtOnce(mlir::linalg::GenericOp op, const LayoutCost& prices);
/// Returns the tile instruction that may compute the product, if any.
std::optional<LayoutCost::Tiles> tilesFor(mlir::linalg::GenericOp op, const LayoutCost& prices);

/// The use of a value by one reader.
struct LayoutEdge {
  mlir::Value value;             ///< as ChannelRoles::root gives it
  int producer = 0, reader = 0;  ///< variables
  mlir::Operation* reading = nullptr;
};

/// Layout assignment as a labelling problem.
///
/// Variables: the layouts of nodes; one variable with a single label for everything with a fixed layout (arguments,
/// results, operations that mix channels); one variable for each value with several readers, whose labels are the sets
/// of layouts in which the value exists, so that two readers of one layout share one transform. Costs: LayoutCost.
class LayoutGraph {
 public:
  LayoutGraph(mlir::func::FuncOp main, const LayoutCost& prices);

  const LabellingProblem& problem() const { return problem_; }
  /// Returns initial labellings: each has all variables in one layout where they support it.
  std::vector<std::vector<int>> starts() const;
  const std::vector<LayoutNode>& nodes() const { return nodes_; }
  const std::vector<LayoutEdge>& edges() const { return edges_; }
  const ChannelRoles& roles() const { return roles_; }
  ChannelLayout layout(int variable, int label) const { return layouts_[variable][label]; }
  /// Returns the cost of transforming a value once, in microseconds; 0 if both layouts place all elements at the same
  /// addresses.
  double transformPrice(mlir::Value value, ChannelLayout from, ChannelLayout to) const;
  /// Returns the number of transforms if every anchor had its preferred layout and all other operations their own,
  /// including transposes of the model.
  int transformsBefore() const { return transforms_before_; }

 private:
  void collectBlocks();
  void addNode(mlir::Operation* op);
  bool addGeneric(mlir::linalg::GenericOp op);
  bool addMoving(mlir::Operation* op);
  bool addFlatten(mlir::tensor::CollapseShapeOp op);
  bool describe(mlir::linalg::GenericOp op, LayoutNode& node);
  int addVariable(std::vector<ChannelLayout> layouts, std::vector<double> costs);
  int addVariables(LayoutNode& node, mlir::linalg::GenericOp op);
  LayoutCost::Product productOf(mlir::linalg::GenericOp op, const Convolution& convolution) const;
  double priceOf(const LayoutNode& node, mlir::linalg::GenericOp op, bool writes, ChannelLayout layout) const;
  double shufflePrice(mlir::linalg::GenericOp op, const std::array<llvm::SmallVector<unsigned>, 2>& walks,
                      ChannelLayout first, ChannelLayout second) const;
  void addEdges();
  void connect(mlir::Value value, int producer, const std::vector<int>& readers);
  int fixedVariable(ChannelLayout layout);
  void countBefore();

  mlir::func::FuncOp main_;
  const LayoutCost& prices_;
  ChannelRoles roles_;
  std::vector<ChannelLayout> universe_;
  LabellingProblem problem_;
  std::vector<std::vector<ChannelLayout>> layouts_;          // per variable; empty for sets
  std::vector<std::pair<int, std::vector<unsigned>>> sets_;  // variable, its labels as bit sets over universe_
  std::vector<LayoutNode> nodes_;
  std::vector<LayoutEdge> edges_;
  llvm::DenseMap<mlir::Operation*, int> node_of_;
  llvm::DenseMap<int64_t, int> fixed_;
  int transforms_before_ = 0;
};

}  // namespace tessera::compiler
