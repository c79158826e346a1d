#include "compiler/graph/layout/layout_roles.h"

#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/layout/layout_rewrite.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Returns the dimensions that `loops` index if they are adjacent, in this order, next to the batch or last.
std::optional<Channels> dimensionsOf(AffineMap map, llvm::ArrayRef<unsigned> loops) {
  for (unsigned first : {1U, map.getNumResults() - static_cast<unsigned>(loops.size())}) {
    if (map.getNumResults() < 1 + loops.size() || first == 0) continue;
    Channels channels{first, static_cast<unsigned>(loops.size())};
    if (llvm::ArrayRef<unsigned>(channelLoops(map, channels)) == loops) return channels;
  }
  return std::nullopt;
}

/// Like dimensionsOf(), with the loops in any order: a channel shuffle.
std::optional<Channels> dimensionsOfAny(AffineMap map, llvm::ArrayRef<unsigned> loops) {
  if (auto channels = dimensionsOf(map, loops)) return channels;
  llvm::SmallVector<unsigned> wanted(loops);
  llvm::sort(wanted);
  for (unsigned first : {1U, map.getNumResults() - static_cast<unsigned>(loops.size())}) {
    if (map.getNumResults() < 1 + loops.size() || first == 0) continue;
    Channels channels{first, static_cast<unsigned>(loops.size())};
    llvm::SmallVector<unsigned> found = channelLoops(map, channels);
    llvm::sort(found);
    if (found == wanted) return channels;
  }
  return std::nullopt;
}

bool isActivation(Value value) {
  auto type = tensorTypeOrNull(value);
  return type && type.getRank() >= 3 && type.hasStaticShape() && type.getNumElements() > 0 &&
         !isKnownAtCompileTime(value);
}

/// Whether the first dimension is a loop alone: the batch.
bool startsWithBatch(AffineMap map) {
  return map.getNumResults() > 0 && mlir::isa<mlir::AffineDimExpr>(map.getResult(0));
}

/// Whether all views that read `value` merge the dimensions in `digits` with spatial ones, or the view that produced it
/// split them off spatial ones: [n, C, h, r, w, r] of [n, C, h r, w r].
bool partsOfSpace(Value value, AffineMap map, Channels channels, llvm::ArrayRef<unsigned> digits) {
  auto belongs = [&](llvm::ArrayRef<mlir::ReassociationIndices> groups) {
    return llvm::all_of(groups, [&](const mlir::ReassociationIndices& group) {
      auto isDigit = [&](int64_t d) {
        auto loop = mlir::cast<mlir::AffineDimExpr>(map.getResult(d)).getPosition();
        return d >= channels.first + channels.count && llvm::is_contained(digits, loop);
      };
      return llvm::none_of(group, isDigit) ||
             (group.front() >= channels.first + channels.count && !isDigit(group.front()));
    });
  };
  if (auto split = value.getDefiningOp<mlir::tensor::ExpandShapeOp>()) return belongs(split.getReassociationIndices());
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](mlir::Operation* user) {
    auto merged = mlir::dyn_cast<mlir::tensor::CollapseShapeOp>(user);
    return merged && belongs(merged.getReassociationIndices());
  });
}

/// Returns the channels of one operand of a pixel shuffle, where `digits` index the other operand's channels: those
/// next to the batch, if the others are spatial.
std::optional<Channels> shuffledChannels(Value value, AffineMap map, llvm::ArrayRef<unsigned> digits) {
  Channels channels{1, 0};
  while (1 + channels.count < map.getNumResults() &&
         llvm::is_contained(digits, mlir::cast<mlir::AffineDimExpr>(map.getResult(1 + channels.count)).getPosition())) {
    ++channels.count;
  }
  if (channels.count == 0 || !partsOfSpace(value, map, channels, digits)) return std::nullopt;
  return channels;
}

/// A view, described by its side with more dimensions and the one with fewer.
struct View {
  explicit View(mlir::Operation* op) {
    if (auto expand = mlir::dyn_cast<mlir::tensor::ExpandShapeOp>(op)) {
      groups = expand.getReassociationIndices();
      many = expand.getResult(), few = expand.getSrc();
    } else {
      auto collapse = mlir::cast<mlir::tensor::CollapseShapeOp>(op);
      groups = collapse.getReassociationIndices();
      many = collapse.getSrc(), few = collapse.getResult();
    }
  }

  /// Maps dimensions of `few` to dimensions of `many`; nothing if the batch is split.
  std::optional<Channels> split(Channels coarse) const {
    if (groups[0].size() != 1) return std::nullopt;
    const auto first = static_cast<unsigned>(groups[coarse.first].front());
    const auto last = static_cast<unsigned>(groups[coarse.first + coarse.count - 1].back());
    return Channels{first, last - first + 1};
  }

  llvm::SmallVector<mlir::ReassociationIndices> groups;
  Value many, few;
};

}  // namespace

std::optional<Convolution> asConvolution(GenericOp op) {
  auto dims = mlir::linalg::inferConvolutionDims(op);
  if (mlir::failed(dims) || !isProduct(op)) return std::nullopt;
  // Only one loop each for batch, input channel and output channel, and at most one for groups.
  if (dims->batch.size() != 1 || dims->outputImage.empty() || dims->outputChannel.size() != 1 ||
      dims->inputChannel.size() != 1 || dims->depth.size() > 1) {
    return std::nullopt;
  }
  if (!isActivation(op.getDpsInputs()[0]) || !isKnownAtCompileTime(op.getDpsInputs()[1])) return std::nullopt;
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  // Channels are groups and channels within a group, in this order.
  llvm::SmallVector<unsigned> in(dims->depth.begin(), dims->depth.end()), out = in;
  in.push_back(dims->inputChannel[0]);
  out.push_back(dims->outputChannel[0]);
  auto input = dimensionsOf(maps[0], in), output = dimensionsOf(maps[2], out);
  const bool batched = startsWithBatch(maps[0]) && startsWithBatch(maps[2]) &&
                       maps[0].getResult(0).isFunctionOfDim(dims->batch[0]) &&
                       maps[0].getResult(0) == maps[2].getResult(0);
  if (!input || !output || !batched || !maps[2].isProjectedPermutation()) return std::nullopt;
  Convolution convolution{*input, *output};
  if (!dims->strides.empty()) convolution.stride = dims->strides.back();
  if (!dims->depth.empty()) convolution.groups = op.getStaticLoopRanges()[dims->depth[0]];
  return convolution;
}

bool movesDigits(GenericOp op) {
  return op.getNumParallelLoops() == op.getNumLoops() && op->getNumResults() == 1 && !op.hasIndexSemantics() &&
         llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isProjectedPermutation(); });
}

ChannelRoles::ChannelRoles(mlir::func::FuncOp main) {
  // Convolutions and windows are the anchors from which roles spread.
  for (auto op : main.getBody().front().getOps<GenericOp>()) {
    if (auto convolution = asConvolution(op)) {
      set(op.getDpsInputs()[0], convolution->input);
      set(op.getResult(0), convolution->output);
      continue;
    }
    if (!isChannelwiseWindow(op) || op->getNumResults() != 1 || !isActivation(op.getDpsInputs()[0])) continue;
    // The only dimension besides the batch without a sliding window.
    const AffineMap map = op.getIndexingMapsArray()[0];
    for (unsigned d : {1U, map.getNumResults() - 1}) {
      if (!mlir::isa<mlir::AffineDimExpr>(map.getResult(d))) continue;
      set(op.getDpsInputs()[0], {d, 1});
      break;
    }
  }
  // Spreads roles to neighbours until nothing changes.
  while (!pending_.empty()) visit(pending_.pop_back_val());
}

std::optional<Channels> ChannelRoles::of(Value value) const {
  auto it = channels_.find(value);
  return it == channels_.end() ? std::nullopt : std::optional(it->second);
}

void ChannelRoles::set(Value value, Channels channels) {
  if (!isActivation(value) || channels.first + channels.count > tensorTypeOrNull(value).getRank()) return;
  // A value keeps the first role; a conflict is resolved where the roles meet.
  if (!channels_.try_emplace(value, channels).second) return;
  if (mlir::Operation* producer = value.getDefiningOp()) pending_.push_back(producer);
  pending_.append(value.user_begin(), value.user_end());
}

void ChannelRoles::visitGeneric(GenericOp op) {
  if (asConvolution(op)) return;
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  const unsigned inputs = op.getNumDpsInputs();
  auto value = [&](unsigned operand) -> Value {
    return operand < inputs ? op->getOperand(operand) : Value(op->getResult(operand - inputs));
  };
  // The first operand with a role decides the channel loops.
  llvm::SmallVector<unsigned> loops;
  for (unsigned operand = 0; operand < maps.size() && loops.empty(); ++operand) {
    if (auto channels = of(value(operand))) loops = channelLoops(maps[operand], *channels);
  }
  if (loops.empty()) return;
  for (unsigned operand = 0; operand < maps.size(); ++operand) {
    if (!startsWithBatch(maps[operand])) continue;
    if (auto channels = dimensionsOfAny(maps[operand], loops)) {
      set(value(operand), *channels);
    } else if (movesDigits(op)) {
      // A pure movement may split the channels into other loops (a pixel shuffle).
      if (auto shuffled = shuffledChannels(value(operand), maps[operand], loops)) set(value(operand), *shuffled);
    }
  }
}

/// Views may split and merge channels among themselves, and spatial dimensions among themselves.
void ChannelRoles::visitView(mlir::Operation* op) {
  const View view(op);
  if (auto coarse = of(view.few)) {
    if (auto fine = view.split(*coarse)) set(view.many, *fine);
  } else if (auto fine = of(view.many)) {
    // Searches the range of coarse dimensions that splits into exactly these.
    const auto dimensions = static_cast<unsigned>(view.groups.size());
    for (unsigned first = 0; first < dimensions; ++first) {
      for (unsigned count = 1; first + count <= dimensions; ++count) {
        if (view.split({first, count}) == fine) return set(view.few, {first, count});
      }
    }
  }
}

void ChannelRoles::visit(mlir::Operation* op) {
  if (auto generic = mlir::dyn_cast<GenericOp>(op)) return visitGeneric(generic);
  if (mlir::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op)) return visitView(op);
  if (!mlir::isa<mlir::tensor::PadOp, mlir::tensor::ConcatOp, mlir::tensor::ExtractSliceOp>(op)) return;
  llvm::SmallVector<Value> values(mlir::isa<mlir::tensor::ConcatOp>(op) ? op->getOperands()
                                                                        : op->getOperands().take_front(1));
  values.push_back(op->getResult(0));
  // All operands and the result share one role.
  std::optional<Channels> channels;
  for (Value value : values) {
    if (!channels) channels = of(value);
    if (tensorTypeOrNull(value).getRank() != tensorTypeOrNull(op->getResult(0)).getRank()) return;
  }
  if (!channels) return;
  for (Value value : values) set(value, *channels);
}

bool ChannelRoles::isAlias(mlir::Operation* op) const {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0) return false;
  auto result = of(op->getResult(0)), source = of(op->getOperand(0));
  if (!result || !source) return false;
  if (mlir::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op)) {
    // False if one side's channels are spatial on the other side: a convolution's height, transposed, may be the next
    // one's channels.
    const View view(op);
    return view.split(*of(view.few)) == of(view.many);
  }
  // A transpose that moves the channels as a whole and keeps the order of the other dimensions.
  llvm::SmallVector<int64_t> permutation = permutationOf(op);
  if (permutation.empty()) return false;
  llvm::SmallVector<int64_t> channels, rest;
  for (auto [d, from] : llvm::enumerate(permutation)) {
    const bool channel = d >= result->first && d < result->first + result->count;
    (channel ? channels : rest).push_back(from);
    const bool was = from >= source->first && from < source->first + source->count;
    if (was != channel) return false;
  }
  return llvm::is_sorted(channels) && llvm::is_sorted(rest);
}

Value ChannelRoles::root(Value value) const {
  while (value.getDefiningOp() && isAlias(value.getDefiningOp())) value = value.getDefiningOp()->getOperand(0);
  return value;
}

}  // namespace tessera::compiler
