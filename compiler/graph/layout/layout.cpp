#include "compiler/graph/layout/layout.h"

#include <cmath>

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/layout/layout_choices.h"
#include "compiler/graph/layout/layout_decisions.h"
#include "compiler/graph/layout/layout_graph.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Rewrites the graph to the chosen layouts.
class LayoutWriter {
 public:
  LayoutWriter(mlir::func::FuncOp main, const LayoutGraph& graph, const std::vector<int>& labels, int64_t lanes)
      : main_(main), graph_(graph), labels_(labels), lanes_(lanes), builder_(main.getContext()) {}
  int run();

 private:
  ChannelLayout layoutOf(int variable) const { return graph_.layout(variable, labels_[variable]); }
  bool keepsLayouts(const LayoutNode& node);
  /// Returns the physical tensor of `value` (an activation) in `layout`, transforming it if necessary.
  Value physical(Value value, ChannelLayout layout);
  /// Returns `value` in its original shape, for operations that are not rewritten.
  Value plain(Value value);
  bool write(const LayoutNode& node);
  bool writeGeneric(const LayoutNode& node);
  void writeFlatten(const LayoutNode& node);
  Value movedInLayout(const LayoutNode& node, ChannelLayout layout);
  void define(Value value, ChannelLayout layout, Value physical) {
    produced_[value] = layout;
    physical_[{value, layout.block}] = physical;
  }
  bool onlyViewed(Value value);
  void finish();

  mlir::func::FuncOp main_;
  const LayoutGraph& graph_;
  const std::vector<int>& labels_;
  int64_t lanes_;
  mlir::OpBuilder builder_;
  llvm::DenseMap<Value, ChannelLayout> produced_;  // layouts of rewritten roots
  llvm::DenseMap<std::pair<Value, int64_t>, Value> physical_;
  llvm::SmallVector<mlir::Operation*> replaced_;
};

Value LayoutWriter::physical(Value value, ChannelLayout layout) {
  // Views share the tensor of their root.
  Value root = graph_.roles().root(value);
  const Channels channels = *graph_.roles().of(root);
  auto produced = produced_.find(root);
  const ChannelLayout from = produced != produced_.end() ? produced->second : plainLayout(tensorType(root), channels);
  Value& source = physical_[{root, from.block}];
  mlir::OpBuilder::InsertionGuard guard(builder_);
  // The plain tensor is the value itself, only seen in another shape.
  if (!source) {
    builder_.setInsertionPointAfterValue(root);
    source = reshapeView(builder_, root.getLoc(), root, physicalShape(tensorType(root), channels, from));
  }
  // Every conversion is made once and used by all readers.
  Value found = source;
  if (layout.block != from.block) {
    Value& cached = physical_[{root, layout.block}];
    if (!cached) {
      Value before = physical_.lookup({root, from.block});
      builder_.setInsertionPointAfterValue(before);
      cached = convertLayout(builder_, root.getLoc(), before, tensorType(root), channels, from, layout);
    }
    found = cached;
  }
  // A view of the root becomes a view of the physical tensor.
  if (value == root) return found;
  builder_.setInsertionPointAfterValue(found);
  return reshapeView(builder_, value.getLoc(), found,
                     physicalShape(tensorType(value), *graph_.roles().of(value), layout));
}

Value LayoutWriter::plain(Value value) {
  Value found = physical(value, plainLayout(tensorType(value), *graph_.roles().of(value)));
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointAfterValue(found);
  return reshapeView(builder_, value.getLoc(), found, tensorType(value).getShape());
}

/// Whether every operand of a node is already in its chosen layout, so that the node is unchanged.
bool LayoutWriter::keepsLayouts(const LayoutNode& node) {
  auto keeps = [&](Value value, size_t form) {
    return layoutOf(node.variables[form]) == plainLayout(tensorType(value), *graph_.roles().of(value));
  };
  bool same = true;
  const size_t results = node.kind == LayoutNode::kFlatten ? 0 : node.op->getNumResults();
  for (size_t form = 0; form < node.forms.size(); ++form) {
    if (node.variables[form] < 0) continue;
    const bool is_result = form >= node.forms.size() - results;
    same &= keeps(
        is_result ? Value(node.op->getResult(form - (node.forms.size() - results))) : node.op->getOperand(form), form);
  }
  return same;
}

bool LayoutWriter::writeGeneric(const LayoutNode& node) {
  // Activations are read in their chosen layouts; other operands are adapted inside.
  auto op = mlir::cast<GenericOp>(node.op);
  llvm::SmallVector<OperandForm> forms = node.forms;
  llvm::SmallVector<Value> inputs(op.getNumDpsInputs());
  for (size_t form = 0; form < forms.size(); ++form) {
    if (node.variables[form] < 0) continue;
    forms[form].layout = layoutOf(node.variables[form]);
    if (form < inputs.size()) inputs[form] = physical(op->getOperand(form), forms[form].layout);
  }
  builder_.setInsertionPoint(op);
  llvm::SmallVector<Value> results = rewriteInLayouts(builder_, op, forms, inputs, lanes_);
  // Refused: the operation stays, and reads plain values.
  if (results.empty()) return false;
  for (auto [r, result] : llvm::enumerate(results)) {
    const OperandForm& form = forms[inputs.size() + r];
    Value before = op->getResult(r);
    // Activations have a new shape that only rewritten readers know; other results keep their shape.
    if (form.kind == OperandForm::kActivation) {
      define(before, form.layout, result);
    } else {
      before.replaceAllUsesWith(result);
    }
  }
  return true;
}

/// Rebuilds a padding, concatenation or slice on physical tensors.
Value LayoutWriter::movedInLayout(const LayoutNode& node, ChannelLayout layout) {
  const Channels channels = node.forms[0].channels;
  auto type = tensorType(node.op->getResult(0));
  llvm::SmallVector<int64_t> shape = physicalShape(type, channels, layout);
  // Maps a dimension of the logical tensor to the physical one; channels map to the dimension that counts their blocks.
  auto place = [&](int64_t d) -> int64_t {
    if (d == 0) return 0;
    if (d >= channels.first && d < channels.first + channels.count) {
      return layout == kChannelsLast ? static_cast<int64_t>(shape.size()) - 1 : 1;
    }
    return d - (d >= channels.first ? channels.count : 0) + (layout == kChannelsLast ? 0 : 1);
  };
  const auto rank = static_cast<int64_t>(shape.size());
  if (auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(node.op)) {
    llvm::SmallVector<Value> parts;
    for (Value part : concat.getInputs()) parts.push_back(physical(part, layout));
    builder_.setInsertionPoint(node.op);
    return mlir::tensor::ConcatOp::create(builder_, concat.getLoc(), place(static_cast<int64_t>(concat.getDim())),
                                          parts);
  }
  Value source = physical(node.op->getOperand(0), layout);
  builder_.setInsertionPoint(node.op);
  llvm::SmallVector<mlir::OpFoldResult> low(rank, builder_.getIndexAttr(0)), high = low;
  auto isChannel = [&](int64_t d) { return d >= channels.first && d < channels.first + channels.count; };
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(node.op)) {
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (isChannel(d)) continue;
      low[place(d)] = builder_.getIndexAttr(pad.getStaticLow()[d]);
      high[place(d)] = builder_.getIndexAttr(pad.getStaticHigh()[d]);
    }
    return mlir::tensor::PadOp::create(builder_, pad.getLoc(), RankedTensorType::get(shape, type.getElementType()),
                                       source, low, high, pad.getConstantPaddingValue());
  }
  auto slice = mlir::cast<mlir::tensor::ExtractSliceOp>(node.op);
  llvm::SmallVector<mlir::OpFoldResult> sizes, strides(rank, builder_.getIndexAttr(1));
  for (int64_t extent : shape) sizes.push_back(builder_.getIndexAttr(extent));
  for (int64_t d = 0; d < type.getRank(); ++d) {
    if (isChannel(d) && channels.count > 1) continue;  // taken whole
    const int64_t unit = isChannel(d) && layout.blocked() ? layout.block : 1;
    low[place(d)] = builder_.getIndexAttr(slice.getStaticOffsets()[d] / unit);
  }
  return mlir::tensor::ExtractSliceOp::create(builder_, slice.getLoc(), source, low, sizes, strides);
}

/// The flattened activation keeps its physical order; the constants of its products are reordered to match.
void LayoutWriter::writeFlatten(const LayoutNode& node) {
  auto op = mlir::cast<mlir::tensor::CollapseShapeOp>(node.op);
  auto type = tensorType(op.getSrc());
  const Channels channels = node.forms[0].channels;
  const ChannelLayout layout = layoutOf(node.variables[0]);
  // One row, in logical and in physical order.
  auto row = RankedTensorType::get(type.getShape(), type.getElementType());
  Value source = physical(op.getSrc(), layout);
  builder_.setInsertionPoint(op);
  Value flat = reshapeView(builder_, op.getLoc(), source, tensorType(op.getResult()).getShape());
  for (mlir::OpOperand& use : llvm::make_early_inc_range(op->getUses())) {
    auto product = mlir::cast<GenericOp>(use.getOwner());
    const unsigned other = 1 - use.getOperandNumber();
    AffineMap weights = product.getIndexingMapsArray()[other];
    const auto position = *weights.getResultPosition(product.getMatchingIndexingMap(&use).getResult(1));
    builder_.setInsertionPoint(product);
    // The matrix dimension takes the shape of a row; the other dimensions become the batch: [rest.., row] first.
    Value matrix = product->getOperand(other);
    auto matrix_type = tensorType(matrix);
    llvm::SmallVector<int64_t> order, back(matrix_type.getRank());
    for (int64_t d = 0; d < matrix_type.getRank(); ++d) {
      if (d != static_cast<int64_t>(position)) order.push_back(d);
    }
    order.push_back(position);
    for (auto [at, d] : llvm::enumerate(order)) back[d] = static_cast<int64_t>(at);
    Value rows = transpose(builder_, op.getLoc(), matrix, order);
    llvm::SmallVector<int64_t> shape(row.getShape());
    shape[0] = matrix_type.getNumElements() / matrix_type.getDimSize(position);
    auto rows_type = RankedTensorType::get(shape, matrix_type.getElementType());
    const ChannelLayout from = plainLayout(rows_type, channels);
    Value given = reshapeView(builder_, op.getLoc(), rows, physicalShape(rows_type, channels, from));
    Value moved = convertLayout(builder_, op.getLoc(), given, rows_type, channels, from, layout);
    llvm::SmallVector<int64_t> moved_shape;
    for (int64_t d : order) moved_shape.push_back(matrix_type.getDimSize(d));
    moved = transpose(builder_, op.getLoc(), reshapeView(builder_, op.getLoc(), moved, moved_shape), back);
    product->setOperand(other, moved);
    product->setOperand(use.getOperandNumber(), flat);
  }
}

bool LayoutWriter::write(const LayoutNode& node) {
  if (keepsLayouts(node)) return false;
  if (node.kind == LayoutNode::kGeneric) return writeGeneric(node);
  if (node.kind == LayoutNode::kFlatten) {
    writeFlatten(node);
    return true;
  }
  const ChannelLayout layout = layoutOf(node.variables[0]);
  define(node.op->getResult(0), layout, movedInLayout(node, layout));
  return true;
}

/// Whether only views separate an activation from its physical tensor.
bool LayoutWriter::onlyViewed(Value value) {
  for (Value root = graph_.roles().root(value); value != root; value = value.getDefiningOp()->getOperand(0)) {
    if (kindOf(value.getDefiningOp()) != OpKind::kView) return false;
  }
  return true;
}

/// Operations that were not rewritten read the original values; dead operations are removed.
void LayoutWriter::finish() {
  const ChannelRoles& roles = graph_.roles();
  llvm::DenseSet<mlir::Operation*> gone(replaced_.begin(), replaced_.end());
  llvm::SmallVector<mlir::Operation*> old;
  llvm::SmallVector<Value> values;
  for (mlir::Operation& op : main_.getBody().front()) {
    if (gone.contains(&op)) old.push_back(&op);
    for (Value result : op.getResults()) {
      if (!roles.of(result)) continue;
      const bool view = !produced_.contains(roles.root(result)) && onlyViewed(result);
      if (gone.contains(&op) || (roles.isAlias(&op) && !view)) values.push_back(result);
      if (roles.isAlias(&op)) old.push_back(&op);
    }
  }
  // Old operations do not count as readers, because they disappear.
  llvm::DenseSet<mlir::Operation*> ignored(old.begin(), old.end());
  for (Value value : values) {
    auto kept = [&](mlir::OpOperand& use) {
      mlir::Operation* owner = use.getOwner();
      return !ignored.contains(owner) && !gone.contains(owner);
    };
    if (llvm::none_of(value.getUses(), kept)) continue;
    // Converts back only for readers that are left.
    Value replacement = plain(value);
    value.replaceUsesWithIf(
        replacement, [&](mlir::OpOperand& use) { return kept(use) && use.getOwner() != replacement.getDefiningOp(); });
  }
  for (mlir::Operation* op : llvm::reverse(old)) {
    if (op->use_empty()) op->erase();
  }
}

int LayoutWriter::run() {
  for (const LayoutNode& node : graph_.nodes()) {
    if (write(node)) replaced_.push_back(node.op);
  }
  finish();
  return static_cast<int>(replaced_.size());
}

}  // namespace

LayoutReport assignLayouts(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices) {
  LayoutReport report;
  const LayoutCost prices(chip);
  // Without convolutions and windows no layout is better than another.
  const LayoutGraph graph(main, prices);
  if (graph.nodes().empty()) return report;
  const std::vector<AnchorLayouts> anchors = anchorsOf(graph, choices);
  std::vector<std::vector<int>> starts = graph.starts();
  const LabellingProblem problem = pinLayouts(anchors, graph, starts, choices);
  const Labelling labelling = solveLabelling(problem, starts);
  // Infinite: no labelling satisfies all pins.
  if (std::isinf(labelling.cost)) refuseTogether(anchors, choices);
  if (!choices.status().ok()) return report;
  recordLayouts(anchors, graph, labelling, chip.costParameters().gains().winograd_share(), choices);
  report.exact = labelling.exact;
  report.transforms_before = graph.transformsBefore();
  report.decisions = explainLayouts(graph, labelling);
  report.operations = LayoutWriter(main, graph, labelling.labels, prices.lanes()).run();
  return report;
}

int countLayoutTransforms(mlir::func::FuncOp main) {
  int count = 0;
  main.walk([&](mlir::Operation* op) { count += op->hasAttr(kLayoutTransform) && !op->use_empty(); });
  return count;
}

}  // namespace tessera::compiler
