#pragma once

#include <array>
#include <vector>

#include "compiler/graph/layout/labelling.h"
#include "compiler/graph/layout/layout_prices.h"
#include "compiler/graph/layout/layout_rewrite.h"
#include "compiler/graph/layout/layout_roles.h"

namespace tessera::compiler {

/// An operation that can work in several layouts. Its activations belong to one variable of the problem, or to two
/// where input and output may differ: convolutions, channel shuffles.
struct LayoutNode {
  enum Kind { kGeneric, kPad, kConcat, kSlice, kFlatten };
  mlir::Operation* op = nullptr;
  Kind kind = kGeneric;
  llvm::SmallVector<OperandForm> forms;  ///< inputs, then results; layouts not yet filled in
  llvm::SmallVector<int> variables;      ///< per form; -1 for what is no activation
  bool anchor = false;                   ///< has a preference of its own

  mlir::Value value(size_t form) const;
};

/// Input channels of a product that an instruction of the target adds up at once; 1 without such a one.
int64_t inputsAtOnce(mlir::linalg::GenericOp op, const LayoutPrices& prices);
/// Products of tiles that may compute it.
std::optional<LayoutPrices::Tiles> tilesFor(mlir::linalg::GenericOp op, const LayoutPrices& prices);

/// One reader's demand on a value.
struct LayoutEdge {
  mlir::Value value;             ///< as ChannelRoles::root gives it
  int producer = 0, reader = 0;  ///< variables
  mlir::Operation* reading = nullptr;
};

/// Layout assignment as a labelling problem.
///
/// Variables: the layouts of nodes; one with a single label for everything that keeps its layout (arguments, results,
/// operations that mix channels); one per value with several readers whose labels are sets of layouts in which the
/// value is held, so that two readers of one layout pay for one transform. Prices: LayoutPrices.
class LayoutGraph {
 public:
  LayoutGraph(mlir::func::FuncOp main, const LayoutPrices& prices);

  const LabellingProblem& problem() const { return problem_; }
  /// Guesses: every variable in one layout where it may be.
  std::vector<std::vector<int>> starts() const;
  const std::vector<LayoutNode>& nodes() const { return nodes_; }
  const std::vector<LayoutEdge>& edges() const { return edges_; }
  const ChannelRoles& roles() const { return roles_; }
  ChannelLayout layout(int variable, int label) const { return layouts_[variable][label]; }
  /// Transforming a value once, in microseconds; 0 when both layouts are the same places.
  double transformPrice(mlir::Value value, ChannelLayout from, ChannelLayout to) const;
  /// Transforms if every anchor had the layout it likes best and everything else its own, transposes of the model
  /// included.
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
  LayoutPrices::Product productOf(mlir::linalg::GenericOp op, const Convolution& convolution) const;
  double priceOf(const LayoutNode& node, mlir::linalg::GenericOp op, bool writes, ChannelLayout layout) const;
  double shufflePrice(mlir::linalg::GenericOp op, const std::array<llvm::SmallVector<unsigned>, 2>& walks,
                      ChannelLayout first, ChannelLayout second) const;
  void addEdges();
  void connect(mlir::Value value, int producer, const std::vector<int>& readers);
  int fixedVariable(ChannelLayout layout);
  void countBefore();

  mlir::func::FuncOp main_;
  const LayoutPrices& prices_;
  ChannelRoles roles_;
  std::vector<ChannelLayout> universe_;
  LabellingProblem problem_;
  std::vector<std::vector<ChannelLayout>> layouts_;          // per variable; empty for sets
  std::vector<std::pair<int, std::vector<unsigned>>> sets_;  // variable, its labels as bits of universe_
  std::vector<LayoutNode> nodes_;
  std::vector<LayoutEdge> edges_;
  llvm::DenseMap<mlir::Operation*, int> node_of_;
  llvm::DenseMap<int64_t, int> fixed_;
  int transforms_before_ = 0;
};

}  // namespace tessera::compiler
