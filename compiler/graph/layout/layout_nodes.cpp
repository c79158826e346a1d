#include <algorithm>

#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/layout/layout_graph.h"
#include "llvm/ADT/SetVector.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::linalg::GenericOp;

double pointsOf(GenericOp op) {
  double points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= static_cast<double>(extent);
  return points;
}

bool canRefill(Value init) {
  while (init.getDefiningOp() && kindOf(init.getDefiningOp()) == OpKind::kView) {
    init = init.getDefiningOp()->getOperand(0);
  }
  return init.getDefiningOp<mlir::tensor::EmptyOp>() || init.getDefiningOp<mlir::linalg::FillOp>();
}

/// Returns the bits of the elements that the target's instructions add in groups; 0 if the product has none.
int groupedBits(GenericOp op) { return narrowProduct(op) ? 8 : isBf16Product(op) ? 16 : 0; }

}  // namespace

int64_t inputsAtOnce(GenericOp op, const LayoutCost& prices) {
  const int bits = groupedBits(op);
  return bits > 0 ? prices.dotProductGroup(bits) : 1;
}

std::optional<LayoutCost::Tiles> tilesFor(GenericOp op, const LayoutCost& prices) {
  const int bits = groupedBits(op);
  return bits > 0 ? prices.tilesOf(bits) : std::nullopt;
}

mlir::Value LayoutNode::value(size_t form) const {
  if (kind == kGeneric) {
    auto generic = mlir::cast<GenericOp>(op);
    return static_cast<int64_t>(form) < generic.getNumDpsInputs()
               ? op->getOperand(form)
               : Value(op->getResult(form - generic.getNumDpsInputs()));
  }
  return form + 1 == forms.size() && kind != kFlatten ? Value(op->getResult(0)) : op->getOperand(form);
}

/// Determines each operand's kind. Returns false if the operation cannot be rebuilt in another layout.
bool LayoutGraph::describe(GenericOp op, LayoutNode& node) {
  if (op.hasIndexSemantics() || op->getNumResults() == 0) return false;
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  const unsigned inputs = op.getNumDpsInputs();
  node.forms.resize(maps.size());
  // The channel loops: those of every activation.
  llvm::SetVector<unsigned> loops;
  for (unsigned operand = 0; operand < maps.size(); ++operand) {
    if (auto channels = roles_.of(node.value(operand))) {
      llvm::SmallVector<unsigned> found = channelLoops(maps[operand], *channels);
      if (found.size() != channels->count || !mlir::isa<mlir::AffineDimExpr>(maps[operand].getResult(0))) return false;
      loops.insert(found.begin(), found.end());
    }
  }
  if (loops.empty()) return false;
  for (unsigned operand = 0; operand < maps.size(); ++operand) {
    Value value = node.value(operand);
    OperandForm& form = node.forms[operand];
    if (operand >= inputs && (!canRefill(op->getOperand(operand)) || !maps[operand].isProjectedPermutation()))
      return false;
    if (llvm::none_of(loops, [&](unsigned loop) { return maps[operand].isFunctionOfDim(loop); })) continue;
    for (mlir::AffineExpr result : maps[operand].getResults()) {
      const bool sums = llvm::any_of(loops, [&](unsigned loop) { return result.isFunctionOfDim(loop); });
      if (sums && !mlir::isa<mlir::AffineDimExpr>(result)) return false;
    }
    if (auto channels = roles_.of(value)) {
      form.kind = OperandForm::kActivation;
      form.channels = *channels;
      for (unsigned d = 0; d < maps[operand].getNumResults(); ++d) {
        const bool channel = d >= channels->first && d < channels->first + channels->count;
        auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(maps[operand].getResult(d));
        // A digit that is spatial in another operand must stay whole (splitLoops).
        if (!channel && loop && loops.contains(loop.getPosition()) && !movesDigits(op)) return false;
      }
    } else {
      form.kind = operand < inputs && isKnownAtCompileTime(value) ? OperandForm::kConstant : OperandForm::kInPlace;
    }
  }
  return llvm::any_of(node.forms, [](const OperandForm& form) { return form.kind == OperandForm::kActivation; });
}

LayoutCost::Product LayoutGraph::productOf(GenericOp op, const Convolution& convolution) const {
  auto output = tensorTypeOrNull(op->getResult(0));
  LayoutCost::Product product;
  product.operations = 2 * pointsOf(op);
  // Groups are computed separately, so prices see the channels of one group.
  product.outputs = channelCount(output, convolution.output) / convolution.groups;
  product.inputs = channelCount(tensorTypeOrNull(op->getOperand(0)), convolution.input) / convolution.groups;
  // Summed elements for each result.
  product.steps =
      std::max<int64_t>(1, static_cast<int64_t>(pointsOf(op)) / std::max<int64_t>(1, output.getNumElements()));
  llvm::SmallVector<int64_t> plane = physicalShape(output, convolution.output, kChannelsFirst);
  product.line = plane.back();
  product.stride = convolution.stride;
  product.group = inputsAtOnce(op, prices_);
  product.tiles = tilesFor(op, prices_);
  // Without window and stride the whole plane is one line.
  llvm::SmallVector<int64_t> input =
      physicalShape(tensorTypeOrNull(op->getOperand(0)), convolution.input, kChannelsFirst);
  if (llvm::ArrayRef<int64_t>(input).drop_front(2) == llvm::ArrayRef<int64_t>(plane).drop_front(2)) {
    product.line = 1;
    for (int64_t extent : llvm::ArrayRef<int64_t>(plane).drop_front(2)) product.line *= extent;
  }
  return product;
}

double LayoutGraph::priceOf(const LayoutNode& node, GenericOp op, bool writes, ChannelLayout layout) const {
  const size_t result = op.getNumDpsInputs();
  if (auto convolution = asConvolution(op)) {
    const LayoutCost::Product product = productOf(op, *convolution);
    return writes ? prices_.writing(product, layout) : prices_.reading(product, layout);
  }
  for (auto [index, form] : llvm::enumerate(node.forms)) {
    if (form.kind != OperandForm::kActivation) continue;
    auto type = tensorTypeOrNull(node.value(index));
    const int64_t channels = channelCount(type, form.channels);
    if (isChannelwiseWindow(op) && index >= result) {
      return prices_.window(pointsOf(op) * (isProduct(op) ? 2 : 1), channels,
                            physicalShape(type, form.channels, kChannelsFirst).back(), layout);
    }
    // Filled blocks are computed and moved as well.
    const int64_t filled = filledChannels(layout, channels) - channels;
    if (filled > 0)
      return prices_.pass(tensorBytes(type), false) * static_cast<double>(filled) / static_cast<double>(channels);
  }
  return 0;
}

/// Returns the price of a pixel shuffle; 0 if both sides have the same channels in any order, which is only another
/// access function.
double LayoutGraph::shufflePrice(GenericOp op, const std::array<llvm::SmallVector<unsigned>, 2>& walks,
                                 ChannelLayout first, ChannelLayout second) const {
  if (walks[0].size() == walks[1].size() && std::ranges::is_permutation(walks[0], walks[1])) return 0;
  auto type = tensorTypeOrNull(op->getResult(0));
  const int64_t digit = walks[0].back() == walks[1].back() ? op.getStaticLoopRanges()[walks[0].back()] : 1;
  return prices_.shuffle(tensorBytes(type), type.getNumElements(), digit, second, first);
}

/// Adds a node with one variable, or two if its activations have different channel loops. Returns false if it cannot
/// change layout.
bool LayoutGraph::addGeneric(GenericOp op) {
  LayoutNode node{.op = op, .kind = LayoutNode::kGeneric, .forms = {}, .variables = {}, .anchor = false};
  if (!describe(op, node)) return false;
  const std::optional<Convolution> convolution = asConvolution(op);
  node.anchor = convolution || isChannelwiseWindow(op);
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto loopsOf = [&](size_t operand) {
    llvm::SmallVector<unsigned> loops = channelLoops(maps[operand], node.forms[operand].channels);
    // Loops of one iteration do not distinguish channel orders.
    llvm::erase_if(loops, [&](unsigned loop) { return op.getStaticLoopRanges()[loop] == 1; });
    return loops;
  };
  // The last activation (a result, if there is one) defines the main variable. Activations with another channel order
  // share a second variable.
  node.variables.assign(node.forms.size(), -1);
  std::array<llvm::SmallVector<unsigned>, 2> walks;
  size_t count = 0;
  std::vector<std::vector<size_t>> members(2);
  for (size_t operand = node.forms.size(); operand-- > 0;) {
    if (node.forms[operand].kind != OperandForm::kActivation) continue;
    llvm::SmallVector<unsigned> loops = loopsOf(operand);
    size_t slot = 0;
    while (slot < count && walks[slot] != loops) ++slot;
    if (slot == 2) return false;
    if (slot == count) walks[count++] = loops;
    members[slot].push_back(operand);
  }
  std::array<int, 2> variables{-1, -1};
  auto formsIn = [&](ChannelLayout first, ChannelLayout second) {
    llvm::SmallVector<OperandForm> forms = node.forms;
    for (size_t operand : members[0]) forms[operand].layout = first;
    for (size_t operand : members[1]) forms[operand].layout = second;
    return forms;
  };
  // A layout is allowed if the loops can be split for it, with the other side in its plain layout.
  auto allowed = [&](size_t slot, ChannelLayout layout) {
    if (layout.blocked() && prices_.cube() == 0) {
      // Blocks that would be filled by half or less are not considered.
      for (size_t operand : members[slot]) {
        const int64_t channels = channelCount(tensorTypeOrNull(node.value(operand)), node.forms[operand].channels);
        if (2 * channels < layout.block) return false;
      }
    }
    return splitLoops(op, slot == 0 ? formsIn(layout, kChannelsFirst) : formsIn(kChannelsFirst, layout)).has_value();
  };
  for (size_t slot = 0; slot < count; ++slot) {
    std::vector<ChannelLayout> layouts;
    std::vector<double> costs;
    for (ChannelLayout layout : universe_) {
      if (!allowed(slot, layout)) continue;
      layouts.push_back(layout);
      costs.push_back(priceOf(node, op, slot == 0, layout));
    }
    if (layouts.empty()) return false;
    variables[slot] = addVariable(std::move(layouts), std::move(costs));
    for (size_t operand : members[slot]) node.variables[operand] = variables[slot];
  }
  // Two variables: the price of the combination, or forbidden if the loops cannot be split for both.
  if (count == 2) {
    LabellingProblem::Edge edge{variables[0], variables[1], {}};
    for (ChannelLayout first : layouts_[variables[0]]) {
      for (ChannelLayout second : layouts_[variables[1]]) {
        // The first layout is written, the second one read.
        const double more = convolution       ? prices_.crossing(productOf(op, *convolution), second, first)
                            : movesDigits(op) ? shufflePrice(op, walks, first, second)
                                              : 0;
        edge.costs.push_back(splitLoops(op, formsIn(first, second)) ? more : kForbidden);
      }
    }
    problem_.edges.push_back(std::move(edge));
  }
  nodes_.push_back(std::move(node));
  return true;
}

/// Adds a padding, concatenation or slice: all its operands and results share one layout.
bool LayoutGraph::addMoving(mlir::Operation* op) {
  auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op);
  auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(op);
  auto slice = mlir::dyn_cast<mlir::tensor::ExtractSliceOp>(op);
  if (!pad && !concat && !slice) return false;
  auto channels = roles_.of(op->getResult(0));
  auto type = tensorTypeOrNull(op->getResult(0));
  if (!channels) return false;
  LayoutNode node{.op = op, .kind = LayoutNode::kPad, .forms = {}, .variables = {}, .anchor = false};
  node.kind = pad ? LayoutNode::kPad : concat ? LayoutNode::kConcat : LayoutNode::kSlice;
  llvm::SmallVector<Value> values(concat ? op->getOperands() : op->getOperands().take_front(1));
  values.push_back(op->getResult(0));
  for (Value value : values) {
    if (roles_.of(value) != channels) return false;
    node.forms.push_back({OperandForm::kActivation, *channels, {}});
  }
  auto isChannel = [&](int64_t d) { return d >= channels->first && d < channels->first + channels->count; };
  llvm::SmallVector<int64_t> borders;  // channel numbers at which a block must end
  bool fills = true;                   // whether the last block may be filled up
  if (pad) {
    if (!pad.getConstantPaddingValue()) return false;
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (isChannel(d) && (pad.getStaticLow()[d] != 0 || pad.getStaticHigh()[d] != 0)) return false;
      if (mlir::ShapedType::isDynamic(pad.getStaticLow()[d]) || mlir::ShapedType::isDynamic(pad.getStaticHigh()[d]))
        return false;
    }
  } else if (concat) {
    if (isChannel(concat.getDim())) {
      if (channels->count != 1) return false;
      for (Value part : concat.getInputs()) borders.push_back(tensorTypeOrNull(part).getDimSize(channels->first));
      fills = false;
    }
  } else {
    auto source = tensorTypeOrNull(slice.getSource());
    if (source.getRank() != type.getRank()) return false;
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (mlir::ShapedType::isDynamic(slice.getStaticOffsets()[d]) || slice.getStaticStrides()[d] != 1) return false;
      if (!isChannel(d) || source.getDimSize(d) == type.getDimSize(d)) continue;
      if (channels->count != 1) return false;
      borders.append({slice.getStaticOffsets()[d], type.getDimSize(d)});
      fills = false;
    }
  }
  std::vector<ChannelLayout> layouts;
  std::vector<double> costs;
  const int64_t count = channelCount(type, *channels);
  for (ChannelLayout layout : universe_) {
    if (layout.blocked()) {
      if (channels->count == 1
              ? (!fills && count % layout.block != 0) || (2 * count < layout.block && prices_.cube() == 0)
              : count % layout.block != 0) {
        continue;
      }
      if (llvm::any_of(borders, [&](int64_t border) { return border % layout.block != 0; })) continue;
    }
    double cost = 0;
    // Contiguous parts are written in place; other parts are copied.
    if (concat && isChannel(concat.getDim()) && (layout == kChannelsLast || type.getDimSize(0) != 1)) {
      cost = prices_.pass(tensorBytes(type), false);
    }
    layouts.push_back(layout);
    costs.push_back(cost);
  }
  node.variables.assign(node.forms.size(), addVariable(std::move(layouts), std::move(costs)));
  nodes_.push_back(std::move(node));
  return true;
}

/// [n, C, h, w] -> [n, C*h*w], read only by products with constants, whose rows can have any order.
bool LayoutGraph::addFlatten(mlir::tensor::CollapseShapeOp op) {
  auto channels = roles_.of(op.getSrc());
  auto groups = op.getReassociationIndices();
  if (!channels || groups.size() != 2 || groups[0].size() != 1 || op->use_empty()) return false;
  for (mlir::OpOperand& use : op->getUses()) {
    auto product = mlir::dyn_cast<GenericOp>(use.getOwner());
    if (!product || !isProduct(product) || product.isDpsInit(&use)) return false;
    const unsigned other = 1 - use.getOperandNumber();
    if (!isKnownAtCompileTime(product->getOperand(other))) return false;
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(product.getMatchingIndexingMap(&use).getResult(1));
    AffineMap weights = product.getIndexingMapsArray()[other];
    if (!loop || !weights.isProjectedPermutation() || !weights.isFunctionOfDim(loop.getPosition())) return false;
    if (product.getIteratorTypesArray()[loop.getPosition()] != mlir::utils::IteratorType::reduction) return false;
  }
  LayoutNode node{.op = op,
                  .kind = LayoutNode::kFlatten,
                  .forms = {{OperandForm::kActivation, *channels, {}}},
                  .variables = {},
                  .anchor = false};
  std::vector<ChannelLayout> layouts;
  const int64_t count = channelCount(tensorTypeOrNull(op.getSrc()), *channels);
  for (ChannelLayout layout : universe_) {
    if (!layout.blocked() || count % layout.block == 0) layouts.push_back(layout);
  }
  std::vector<double> costs(layouts.size(), 0);
  node.variables = {addVariable(std::move(layouts), std::move(costs))};
  nodes_.push_back(std::move(node));
  return true;
}

void LayoutGraph::addNode(mlir::Operation* op) {
  if (roles_.isAlias(op)) return;
  bool added = false;
  if (auto generic = mlir::dyn_cast<GenericOp>(op)) {
    added = addGeneric(generic);
  } else if (auto collapse = mlir::dyn_cast<mlir::tensor::CollapseShapeOp>(op)) {
    added = addFlatten(collapse);
  } else {
    added = addMoving(op);
  }
  if (added) node_of_[op] = static_cast<int>(nodes_.size()) - 1;
}

}  // namespace tessera::compiler
