#include "compiler/graph/layout/layout_rewrite.h"

#include <algorithm>

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

/// Whether the value is 1 + exp(x), which is never zero.
bool isLogisticDenominator(Value value) {
  auto sum = value.getDefiningOp<arith::AddFOp>();
  auto positive = [](Value term) {
    auto constant = term.getDefiningOp<arith::ConstantOp>();
    auto number = constant ? mlir::dyn_cast<mlir::FloatAttr>(constant.getValue()) : mlir::FloatAttr();
    return number && number.getValueAsDouble() > 0;
  };
  auto power = [](Value term) { return term.getDefiningOp<mlir::math::ExpOp>() != nullptr; };
  return sum && ((positive(sum.getLhs()) && power(sum.getRhs())) || (positive(sum.getRhs()) && power(sum.getLhs())));
}

/// Whether finite inputs give finite results, so that the fill of a block never becomes NaN.
bool staysFinite(GenericOp op) {
  for (mlir::Operation& inner : op.getBody()->without_terminator()) {
    if (mlir::isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
                  arith::MaxNumFOp, arith::MinNumFOp, arith::CmpFOp, arith::SelectOp, arith::ConstantOp, arith::AddIOp,
                  arith::SubIOp, arith::MulIOp, arith::ExtFOp, arith::TruncFOp, arith::MaxSIOp, arith::MinSIOp,
                  arith::MaxUIOp, arith::MinUIOp, arith::CmpIOp, mlir::math::TanhOp, mlir::math::ErfOp,
                  mlir::math::AbsFOp>(inner)) {
      continue;
    }
    if (mlir::isa<mlir::math::ExpOp>(inner)) {
      const bool in_logistic = llvm::all_of(inner.getUsers(), [&](mlir::Operation* sum) {
        return mlir::isa<arith::AddFOp>(sum) && isLogisticDenominator(sum->getResult(0)) &&
               llvm::all_of(sum->getUses(), [](mlir::OpOperand& use) {
                 return mlir::isa<arith::DivFOp>(use.getOwner()) && use.getOperandNumber() == 1;
               });
      });
      if (in_logistic) continue;
    }
    if (auto quotient = mlir::dyn_cast<arith::DivFOp>(inner)) {
      if (quotient.getRhs().getDefiningOp<arith::ConstantOp>() || isLogisticDenominator(quotient.getRhs())) continue;
    }
    return false;
  }
  return true;
}

class Splitter {
 public:
  Splitter(GenericOp op, llvm::ArrayRef<OperandForm> forms)
      : op_(op), forms_(forms), extents_(op.getStaticLoopRanges()), filled_(extents_) {}
  std::optional<LoopSplits> run();

 private:
  bool cutFor(AffineMap map, const OperandForm& form);
  bool fillingIsSafe();
  bool spaceIsWhole();

  GenericOp op_;
  llvm::ArrayRef<OperandForm> forms_;
  llvm::SmallVector<int64_t> extents_, filled_;
  llvm::SmallVector<llvm::SmallVector<int64_t>> cuts_;  ///< by loop: sizes of inner parts
};

/// Whether no cut loop indexes a spatial dimension of an activation: a digit that is spatial in another operand must
/// stay whole.
bool Splitter::spaceIsWhole() {
  llvm::SmallVector<AffineMap> maps = op_.getIndexingMapsArray();
  for (auto [index, form] : llvm::enumerate(forms_)) {
    if (form.kind != OperandForm::kActivation) continue;
    const llvm::SmallVector<unsigned> channels = channelLoops(maps[index], form.channels);
    for (unsigned loop = 0; loop < extents_.size(); ++loop) {
      if ((!cuts_[loop].empty() || filled_[loop] != extents_[loop]) && maps[index].isFunctionOfDim(loop) &&
          !llvm::is_contained(channels, loop)) {
        return false;
      }
    }
  }
  return true;
}

/// Records where the block of an activation ends within the digits of the channel number.
bool Splitter::cutFor(AffineMap map, const OperandForm& form) {
  if (!form.layout.blocked()) return true;
  int64_t rest = form.layout.block;
  llvm::SmallVector<unsigned> loops = channelLoops(map, form.channels);
  if (loops.empty()) return false;
  // From the last loop forwards: the block takes the fastest varying digits first.
  for (unsigned loop : llvm::reverse(loops)) {
    const int64_t extent = extents_[loop];
    if (rest == 1) return true;
    // A single channel loop may be filled up to whole blocks.
    if (loops.size() == 1) {
      const int64_t filled = (extent + rest - 1) / rest * rest;
      if (filled_[loop] != extent && filled_[loop] != filled) return false;
      filled_[loop] = filled;
      if (filled != rest) cuts_[loop].push_back(rest);
      return true;
    }
    // The loop is entirely within the block.
    if (rest % extent == 0) {
      rest /= extent;
    } else if (extent % rest == 0) {
      // The block ends inside this loop.
      cuts_[loop].push_back(rest);
      rest = 1;
    } else {
      return false;
    }
  }
  return rest == 1;
}

bool Splitter::fillingIsSafe() {
  llvm::SmallVector<AffineMap> maps = op_.getIndexingMapsArray();
  bool any = false;
  for (unsigned loop = 0; loop < extents_.size(); ++loop) {
    if (filled_[loop] == extents_[loop]) continue;
    any = true;
    for (auto [index, form] : llvm::enumerate(forms_)) {
      if (!maps[index].isFunctionOfDim(loop)) continue;
      // Constants are filled with zeros; operands in place have no room.
      if (form.kind == OperandForm::kConstant) continue;
      if (form.kind != OperandForm::kActivation) return false;
      // All activations that vary with the loop must be filled up to the same size.
      if (filledChannels(form.layout, extents_[loop]) != filled_[loop]) return false;
      if (channelLoops(maps[index], form.channels).size() != 1) return false;
    }
    if (op_.getIteratorTypesArray()[loop] != IteratorType::reduction) continue;
    // The fill of a summed loop must contribute zero, as a zero-filled constant factor does.
    const bool zero = isProduct(op_) && llvm::any_of(llvm::seq<size_t>(0, 2), [&](size_t input) {
                        return forms_[input].kind == OperandForm::kConstant && maps[input].isFunctionOfDim(loop) &&
                               !flipsSignBit(op_, static_cast<unsigned>(input));
                      });
    if (!zero) return false;
  }
  return !any || isProduct(op_) || staysFinite(op_);
}

std::optional<LoopSplits> Splitter::run() {
  cuts_.resize(extents_.size());
  llvm::SmallVector<AffineMap> maps = op_.getIndexingMapsArray();
  for (auto [index, form] : llvm::enumerate(forms_)) {
    if (form.kind == OperandForm::kActivation && !cutFor(maps[index], form)) return std::nullopt;
  }
  if (!fillingIsSafe() || !spaceIsWhole()) return std::nullopt;
  LoopSplits splits;
  for (unsigned loop = 0; loop < extents_.size(); ++loop) {
    llvm::SmallVector<int64_t>& cuts = cuts_[loop];
    // Descending, so that each cut divides what is left.
    llvm::sort(cuts, std::greater<int64_t>());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    llvm::SmallVector<int64_t, 3> parts;
    int64_t whole = filled_[loop];
    for (int64_t cut : cuts) {
      if (whole % cut != 0) return std::nullopt;
      parts.push_back(whole / cut);
      whole = cut;
    }
    parts.push_back(whole);
    splits.push_back(std::move(parts));
  }
  return splits;
}

/// Rebuilds one operation with its split loops.
class Rewriter {
 public:
  Rewriter(mlir::OpBuilder& builder, GenericOp op, llvm::ArrayRef<OperandForm> forms, LoopSplits splits)
      : builder_(builder), op_(op), forms_(forms), splits_(std::move(splits)) {}
  llvm::SmallVector<Value> run(llvm::ArrayRef<Value> inputs, int64_t lanes);

 private:
  struct Part {
    unsigned loop;
    unsigned part;
    bool operator==(const Part&) const = default;
  };
  int64_t extentOf(Part part) const { return splits_[part.loop][part.part]; }
  /// Returns the parts of an activation's channel number before and after the spatial dimensions.
  std::pair<llvm::SmallVector<Part>, llvm::SmallVector<Part>> channelParts(unsigned operand);
  void splitPanels(int64_t lanes);
  void orderLoops();
  unsigned position(Part part) const { return llvm::find(order_, part) - order_.begin(); }
  AffineExpr dim(Part part) { return builder_.getAffineDimExpr(position(part)); }
  AffineExpr moved(AffineExpr expression);
  void addActivation(unsigned operand, Value physical);
  void addInPlace(unsigned operand);
  void addConstant(unsigned operand);
  Value initOf(unsigned operand, llvm::ArrayRef<int64_t> shape);
  bool isResult(unsigned operand) { return operand >= op_.getNumDpsInputs(); }

  mlir::OpBuilder& builder_;
  GenericOp op_;
  llvm::ArrayRef<OperandForm> forms_;
  LoopSplits splits_;
  llvm::SmallVector<Part> order_;
  llvm::SmallVector<Value> operands_;
  llvm::SmallVector<AffineMap> maps_;
  bool failed_ = false;
};

std::pair<llvm::SmallVector<Rewriter::Part>, llvm::SmallVector<Rewriter::Part>> Rewriter::channelParts(
    unsigned operand) {
  const OperandForm& form = forms_[operand];
  llvm::SmallVector<Part> outer, inner;
  for (unsigned loop : channelLoops(op_.getIndexingMapsArray()[operand], form.channels)) {
    for (unsigned part = 0; part < splits_[loop].size(); ++part) outer.push_back({loop, part});
  }
  // All channels come before space.
  if (form.layout == kChannelsFirst) return {outer, inner};
  int64_t block = 1;
  // Takes parts from the end until they fill the block.
  while (!outer.empty() && (form.layout == kChannelsLast || block < form.layout.block)) {
    block *= extentOf(outer.back());
    inner.insert(inner.begin(), outer.pop_back_val());
  }
  return {outer, inner};
}

/// A product that writes channels last reads its constant in panels of one vector, if vectors divide the channels.
void Rewriter::splitPanels(int64_t lanes) {
  const unsigned result = op_.getNumDpsInputs();
  if (!isProduct(op_) || forms_[result].kind != OperandForm::kActivation || !(forms_[result].layout == kChannelsLast)) {
    return;
  }
  const unsigned loop = channelLoops(op_.getIndexingMapsArray()[result], forms_[result].channels).back();
  // In a depthwise operation the activation varies with the channel too, so there is no panel.
  for (unsigned input = 0; input < result; ++input) {
    if (forms_[input].kind == OperandForm::kActivation && op_.getIndexingMapsArray()[input].isFunctionOfDim(loop))
      return;
  }
  auto& parts = splits_[loop];
  // The loop must not be cut by a block as well.
  if (parts.size() != 1) return;
  if (lanes < 4 || parts[0] % lanes != 0 || parts[0] == lanes) return;
  parts = {parts[0] / lanes, lanes};
}

/// Orders loops as the first result indexes them, then reductions: blocks of channels, windows, channels within a
/// block.
void Rewriter::orderLoops() {
  auto add = [&](Part part) {
    if (!llvm::is_contained(order_, part)) order_.push_back(part);
  };
  auto addAll = [&](unsigned loop) {
    for (unsigned part = 0; part < splits_[loop].size(); ++part) add({loop, part});
  };
  const unsigned result = op_.getNumDpsInputs();
  AffineMap map = op_.getIndexingMapsArray()[result];
  llvm::SmallVector<Part> outer, inner;
  if (forms_[result].kind == OperandForm::kActivation) std::tie(outer, inner) = channelParts(result);
  for (unsigned d = 0; d < map.getNumResults(); ++d) {
    if (d == 1 || map.getNumResults() == 1) {
      for (Part part : outer) add(part);
    }
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
    const Channels& channels = forms_[result].channels;
    const bool is_channel =
        forms_[result].kind == OperandForm::kActivation && d >= channels.first && d < channels.first + channels.count;
    if (loop && !is_channel) addAll(loop.getPosition());
  }
  for (Part part : inner) add(part);
  llvm::SmallVector<Part> last;
  for (unsigned input = 0; input < op_.getNumDpsInputs(); ++input) {
    if (forms_[input].kind != OperandForm::kActivation) continue;
    auto [front, back] = channelParts(input);
    for (Part part : front) add(part);
    for (Part part : back) {
      if (!llvm::is_contained(order_, part) && !llvm::is_contained(last, part)) last.push_back(part);
    }
  }
  for (unsigned loop = 0; loop < splits_.size(); ++loop) {
    for (unsigned part = 0; part < splits_[loop].size(); ++part) {
      if (!llvm::is_contained(last, Part{loop, part})) add({loop, part});
    }
  }
  for (Part part : last) add(part);
}

/// Rewrites an index expression over loops that are not split.
AffineExpr Rewriter::moved(AffineExpr expression) {
  llvm::SmallVector<AffineExpr> replacement;
  for (unsigned loop = 0; loop < splits_.size(); ++loop) {
    // A split loop has no single index any more.
    if (splits_[loop].size() > 1 && expression.isFunctionOfDim(loop)) failed_ = true;
    replacement.push_back(dim({loop, 0}));
  }
  return expression.replaceDims(replacement);
}

Value Rewriter::initOf(unsigned operand, llvm::ArrayRef<int64_t> shape) {
  Value init = refill(builder_, op_->getOperand(operand), shape);
  if (!init) failed_ = true;
  return init;
}

void Rewriter::addActivation(unsigned operand, Value physical) {
  const Channels& channels = forms_[operand].channels;
  AffineMap map = op_.getIndexingMapsArray()[operand];
  auto type = tensorType(op_->getOperand(operand));
  auto [outer, inner] = channelParts(operand);
  llvm::SmallVector<AffineExpr> results = {moved(map.getResult(0))};
  // Batch, outer channels, space, inner channels: the order of the physical tensor.
  llvm::SmallVector<int64_t> shape = {type.getDimSize(0)};
  for (Part part : outer) results.push_back(dim(part)), shape.push_back(extentOf(part));
  for (unsigned d = 1; d < map.getNumResults(); ++d) {
    if (d >= channels.first && d < channels.first + channels.count) continue;
    results.push_back(moved(map.getResult(d)));
    shape.push_back(type.getDimSize(d));
  }
  for (Part part : inner) results.push_back(dim(part)), shape.push_back(extentOf(part));
  operands_.push_back(isResult(operand) ? initOf(operand, shape)
                                        : reshapeView(builder_, op_.getLoc(), physical, shape));
  maps_.push_back(AffineMap::get(order_.size(), 0, results, builder_.getContext()));
}

/// Split dimensions stay in place.
void Rewriter::addInPlace(unsigned operand) {
  AffineMap map = op_.getIndexingMapsArray()[operand];
  llvm::SmallVector<AffineExpr> results;
  llvm::SmallVector<int64_t> shape;
  auto type = mlir::dyn_cast<RankedTensorType>(op_->getOperand(operand).getType());
  for (unsigned d = 0; d < map.getNumResults(); ++d) {
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
    if (!loop || splits_[loop.getPosition()].size() == 1) {
      results.push_back(moved(map.getResult(d)));
      shape.push_back(type.getDimSize(d));
      continue;
    }
    for (unsigned part = 0; part < splits_[loop.getPosition()].size(); ++part) {
      results.push_back(dim({loop.getPosition(), part}));
      shape.push_back(splits_[loop.getPosition()][part]);
    }
    // A split dimension becomes neighbouring dimensions.
  }
  Value value = op_->getOperand(operand);
  if (isResult(operand)) {
    value = initOf(operand, shape);
  } else if (type) {
    value = reshapeView(builder_, op_.getLoc(), value, shape);
  }
  operands_.push_back(value);
  maps_.push_back(AffineMap::get(order_.size(), 0, results, builder_.getContext()));
}

/// Fills the constant up with zeros and lays it out in loop order, with the result's vector loop last.
void Rewriter::addConstant(unsigned operand) {
  AffineMap map = op_.getIndexingMapsArray()[operand];
  Value value = op_->getOperand(operand);
  llvm::SmallVector<Part> parts;
  llvm::SmallVector<int64_t> shape;
  for (unsigned d = 0; d < map.getNumResults(); ++d) {
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
    if (!loop) return addInPlace(operand);  // a window or a constant index, which is never split
    int64_t filled = 1;
    for (unsigned part = 0; part < splits_[loop.getPosition()].size(); ++part) {
      parts.push_back({loop.getPosition(), part});
      shape.push_back(extentOf(parts.back()));
      filled *= shape.back();
    }
    value = padDimension(builder_, op_.getLoc(), value, d, filled);
  }
  value = reshapeView(builder_, op_.getLoc(), value, shape);
  Part vector{0, 0};
  const unsigned result = op_.getNumDpsInputs();
  // Vectors load from the constant along the result's innermost channels.
  const bool has_vector = forms_[result].kind == OperandForm::kActivation && !channelParts(result).second.empty();
  if (has_vector) vector = channelParts(result).second.back();
  llvm::SmallVector<int64_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  auto rank = [&](int64_t i) { return std::pair(has_vector && parts[i] == vector, position(parts[i])); };
  llvm::sort(order, [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
  llvm::SmallVector<AffineExpr> results;
  for (int64_t i : order) results.push_back(dim(parts[i]));
  operands_.push_back(transpose(builder_, op_.getLoc(), value, order));
  maps_.push_back(AffineMap::get(order_.size(), 0, results, builder_.getContext()));
}

llvm::SmallVector<Value> Rewriter::run(llvm::ArrayRef<Value> inputs, int64_t lanes) {
  splitPanels(lanes);
  orderLoops();
  for (unsigned operand = 0; operand < forms_.size(); ++operand) {
    if (forms_[operand].kind == OperandForm::kActivation) {
      addActivation(operand, isResult(operand) ? Value() : inputs[operand]);
    } else if (forms_[operand].kind == OperandForm::kConstant) {
      addConstant(operand);
    } else {
      addInPlace(operand);
    }
  }
  if (failed_) return {};
  llvm::SmallVector<IteratorType> iterators;
  for (Part part : order_) iterators.push_back(op_.getIteratorTypesArray()[part.loop]);
  mlir::ValueRange all(operands_);
  const unsigned count = op_.getNumDpsInputs();
  auto written = GenericOp::create(builder_, op_.getLoc(), mlir::ValueRange(all.drop_front(count)).getTypes(),
                                   all.take_front(count), all.drop_front(count), maps_, iterators);
  builder_.cloneRegionBefore(op_.getRegion(), written.getRegion(), written.getRegion().begin());
  llvm::SmallVector<Value> results;
  for (unsigned r = 0; r < op_->getNumResults(); ++r) {
    const OperandForm& form = forms_[count + r];
    auto type = tensorType(op_->getResult(r));
    // The result gets its final shape, in which filled channels stay.
    llvm::SmallVector<int64_t> shape(type.getShape());
    if (form.kind == OperandForm::kActivation) shape = physicalShape(type, form.channels, form.layout);
    results.push_back(reshapeView(builder_, op_.getLoc(), written->getResult(r), shape));
  }
  return results;
}

}  // namespace

std::optional<LoopSplits> splitLoops(GenericOp op, llvm::ArrayRef<OperandForm> forms) {
  return Splitter(op, forms).run();
}

llvm::SmallVector<Value> rewriteInLayouts(mlir::OpBuilder& builder, GenericOp op, llvm::ArrayRef<OperandForm> forms,
                                          llvm::ArrayRef<Value> inputs, int64_t lanes) {
  std::optional<LoopSplits> splits = splitLoops(op, forms);
  if (!splits) return {};
  return Rewriter(builder, op, forms, std::move(*splits)).run(inputs, lanes);
}

llvm::SmallVector<unsigned> channelLoops(AffineMap map, Channels channels) {
  llvm::SmallVector<unsigned> loops;
  if (channels.first + channels.count > map.getNumResults()) return {};
  for (unsigned d = channels.first; d < channels.first + channels.count; ++d) {
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
    // Only plain loops, each once: sums of loops have no digit of their own.
    if (!loop || llvm::is_contained(loops, loop.getPosition())) return {};
    loops.push_back(loop.getPosition());
  }
  return loops;
}

}  // namespace tessera::compiler
