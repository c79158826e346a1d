#include "compiler/graph/layout.h"

#include "compiler/graph/channel_block.h"
#include "compiler/graph/fold_constants.h"
#include "compiler/graph/multiply_accumulate.h"
#include "compiler/graph/op_kind.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Location;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

RankedTensorType tensorType(Value value) { return mlir::cast<RankedTensorType>(value.getType()); }

/// Position of loop `loop` in `map` if it appears exactly once and alone; -1 if not at all; -2 otherwise.
int positionOf(AffineMap map, unsigned loop) {
  int position = -1;
  for (auto [index, result] : llvm::enumerate(map.getResults())) {
    if (!result.isFunctionOfDim(loop)) continue;
    if (position != -1 || !mlir::isa<mlir::AffineDimExpr>(result)) return -2;
    position = static_cast<int>(index);
  }
  return position;
}

class Blocker {
 public:
  Blocker(mlir::func::FuncOp main, int64_t lanes) : main_(main), lanes_(lanes), builder_(main.getContext()) {}
  int run();

 private:
  bool visit(mlir::Operation& op);
  bool blockConvolution(GenericOp op);
  bool blockChannelLoop(GenericOp op, bool anchor);
  bool blockPad(mlir::tensor::PadOp op);
  bool blockConcat(mlir::tensor::ConcatOp op);
  /// The blocked form of a 4-D value, packing it where it is not blocked yet.
  Value blocked(Value value, int64_t block);
  void define(Value plain, Value blocked) { blocked_[plain] = blocked; }

  mlir::func::FuncOp main_;
  int64_t lanes_;
  mlir::OpBuilder builder_;
  llvm::DenseMap<Value, Value> blocked_;
};

Value Blocker::blocked(Value value, int64_t block) {
  if (Value known = blocked_.lookup(value)) return known;
  mlir::OpBuilder::InsertionGuard guard(builder_);
  // Padding of a value in the blocked layout is cheaper than packing the padded one.
  if (auto pad = value.getDefiningOp<mlir::tensor::PadOp>()) {
    builder_.setInsertionPointAfter(pad);
    Value source = pad.getSource();
    if (tensorType(source).getDimSize(1) == tensorType(value).getDimSize(1) && !blocked_.contains(source)) {
      blocked(source, block);
    }
    if (blockPad(pad)) return blocked_.lookup(value);
  }
  builder_.setInsertionPointAfterValue(value);
  Value packed = packChannels(builder_, value.getLoc(), value, block);
  define(value, packed);
  return packed;
}

/// Filter [.., C, .., K, ..] in any order -> [K/k, C/c, kh, kw, c, k]; c = 0: [K/k, C, kh, kw, k].
Value packFilter(mlir::OpBuilder& builder, Location location, Value filter, AffineMap map,
                 llvm::ArrayRef<unsigned> fckk_loops, int64_t out_block, int64_t padded_out, int64_t in_block) {
  llvm::SmallVector<int64_t> order;
  for (unsigned loop : fckk_loops) order.push_back(positionOf(map, loop));
  Value value = transpose(builder, location, filter, order);
  value = padDimension(builder, location, value, 0, padded_out);
  value = splitDimension(builder, location, value, 0, out_block);  // K/k, k, C, kh, kw
  if (in_block == 0) return transpose(builder, location, value, {0, 2, 3, 4, 1});
  value = splitDimension(builder, location, value, 2, in_block);  // K/k, k, C/c, c, kh, kw
  return transpose(builder, location, value, {0, 2, 4, 5, 3, 1});
}

bool Blocker::blockConvolution(GenericOp op) {
  auto dims = mlir::linalg::inferConvolutionDims(op);
  if (mlir::failed(dims) || !isMultiplyAccumulate(op) || op.getNumDpsInputs() != 2) return false;
  if (dims->batch.size() != 1 || dims->outputImage.size() != 2 || dims->outputChannel.size() != 1 ||
      dims->filterLoop.size() != 2 || dims->inputChannel.size() != 1 || !dims->depth.empty()) {
    return false;
  }
  Value input = op.getDpsInputs()[0];
  Value filter = op.getDpsInputs()[1];
  Value init = op.getDpsInits()[0];
  if (tensorType(input).getRank() != 4 || !isKnownAtCompileTime(filter)) return false;
  const AffineMap input_map = op.getIndexingMapsArray()[0];
  const AffineMap filter_map = op.getIndexingMapsArray()[1];
  const AffineMap output_map = op.getIndexingMapsArray()[2];
  // The input is NCHW, the output too.
  const unsigned n = dims->batch[0], f = dims->outputChannel[0], c = dims->inputChannel[0];
  const unsigned oh = dims->outputImage[0], ow = dims->outputImage[1];
  if (positionOf(input_map, n) != 0 || positionOf(input_map, c) != 1 || positionOf(output_map, n) != 0 ||
      positionOf(output_map, f) != 1 || positionOf(output_map, oh) != 2 || positionOf(output_map, ow) != 3) {
    return false;
  }
  // filterLoop follows outputImage pairwise through the input's dimensions 2 and 3.
  unsigned kh = dims->filterLoop[0], kw = dims->filterLoop[1];
  if (!input_map.getResult(2).isFunctionOfDim(kh)) std::swap(kh, kw);
  if (!input_map.getResult(2).isFunctionOfDim(oh) || !input_map.getResult(3).isFunctionOfDim(kw)) return false;

  llvm::SmallVector<int64_t> extents(op.getStaticLoopRanges());
  const int64_t channels = extents[c], outputs = extents[f];
  int64_t out_block = channelBlock(outputs, lanes_);
  if (out_block == 0 && outputs >= lanes_ / 2) out_block = lanes_;
  if (out_block == 0) return false;  // too few outputs to fill half a vector
  const int64_t padded_out = (outputs + out_block - 1) / out_block * out_block;
  int64_t in_block = channelBlock(channels, lanes_);
  Location location = op.getLoc();
  builder_.setInsertionPoint(op);
  Value new_input = in_block == 0 ? input : blocked(input, in_block);
  builder_.setInsertionPoint(op);
  Value packed = packFilter(builder_, location, filter, filter_map, {f, c, kh, kw}, out_block, padded_out, in_block);

  // Loops: n, kb, oh, ow, k, cb, kh, kw[, c].
  mlir::MLIRContext* context = builder_.getContext();
  auto d = [&](unsigned position) { return mlir::getAffineDimExpr(position, context); };
  llvm::SmallVector<AffineExpr> moved(extents.size());
  moved[n] = d(0), moved[oh] = d(2), moved[ow] = d(3), moved[c] = d(5), moved[kh] = d(6), moved[kw] = d(7),
  moved[f] = d(1);
  const unsigned loops = in_block == 0 ? 8 : 9;
  llvm::SmallVector<AffineExpr> in;
  for (AffineExpr result : input_map.getResults()) in.push_back(result.replaceDims(moved));
  llvm::SmallVector<AffineExpr> weights = {d(1), d(5), d(6), d(7)};
  if (in_block != 0) {
    in.push_back(d(8));
    weights.push_back(d(8));
  }
  weights.push_back(d(4));
  llvm::SmallVector<AffineExpr> out = {d(0), d(1), d(2), d(3), d(4)};
  llvm::SmallVector<IteratorType> iterators(loops, IteratorType::parallel);
  for (unsigned loop = 5; loop < loops; ++loop) iterators[loop] = IteratorType::reduction;
  llvm::SmallVector<int64_t> shape = {extents[n], padded_out / out_block, extents[oh], extents[ow], out_block};
  Value new_init = refill(builder_, init, shape);
  if (!new_init) return false;
  auto result = GenericOp::create(
      builder_, location, mlir::TypeRange{new_init.getType()}, mlir::ValueRange{new_input, packed},
      mlir::ValueRange{new_init},
      llvm::ArrayRef<AffineMap>{AffineMap::get(loops, 0, in, context), AffineMap::get(loops, 0, weights, context),
                                AffineMap::get(loops, 0, out, context)},
      iterators);
  builder_.cloneRegionBefore(op.getRegion(), result.getRegion(), result.getRegion().begin());
  if (padded_out == outputs) {
    define(op.getResult(0), result.getResult(0));
    return true;
  }
  Value plain = unpackChannels(builder_, location, result.getResult(0));
  llvm::SmallVector<mlir::OpFoldResult> offsets(4, builder_.getIndexAttr(0)), sizes,
      strides(4, builder_.getIndexAttr(1));
  for (int64_t extent : tensorType(op.getResult(0)).getShape()) sizes.push_back(builder_.getIndexAttr(extent));
  Value cut = mlir::tensor::ExtractSliceOp::create(builder_, location, plain, offsets, sizes, strides);
  op.getResult(0).replaceAllUsesWith(cut);
  return true;
}

/// Splits the channel loop of anything that treats channels alike: elementwise operations, pools, depthwise
/// convolutions, reductions over h and w. Activations get blocks, channel vectors become [C/c, c] views.
bool Blocker::blockChannelLoop(GenericOp op, bool anchor) {
  if (op.hasIndexSemantics() || op->getNumResults() == 0) return false;
  // The channel loop is the one that indexes dimension 1 of the first 4-D operand or result.
  int loop = -1;
  bool reads_blocked = anchor;
  for (mlir::OpOperand& operand : op->getOpOperands()) {
    auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || type.getRank() != 4) continue;
    auto channel = mlir::dyn_cast<mlir::AffineDimExpr>(op.getMatchingIndexingMap(&operand).getResult(1));
    if (!channel) continue;
    if (blocked_.contains(operand.get())) {
      reads_blocked = true;
      loop = static_cast<int>(channel.getPosition());
      break;
    }
    if (loop < 0) loop = static_cast<int>(channel.getPosition());
  }
  if (loop < 0 || !reads_blocked || op.getIteratorTypesArray()[loop] != IteratorType::parallel) return false;
  llvm::SmallVector<int64_t> extents(op.getStaticLoopRanges());
  const int64_t block = channelBlock(extents[loop], lanes_);
  if (block == 0) return false;

  // First decide, then build.
  enum class Form { kUntouched, kActivation, kVector, kTransposed };
  llvm::SmallVector<Form> forms;
  for (mlir::OpOperand& operand : op->getOpOperands()) {
    auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
    const int position = type ? positionOf(op.getMatchingIndexingMap(&operand), loop) : -1;
    const bool is_result = op.isDpsInit(&operand);
    if (position == -1) {
      if (is_result) return false;
      forms.push_back(Form::kUntouched);
    } else if (type.getRank() == 4 && position == 1 && (is_result || !isKnownAtCompileTime(operand.get()))) {
      forms.push_back(Form::kActivation);
    } else if (position == type.getRank() - 1) {
      forms.push_back(Form::kVector);
    } else if (position >= 0 && !is_result && isKnownAtCompileTime(operand.get())) {
      forms.push_back(Form::kTransposed);
    } else {
      return false;
    }
  }
  Location location = op.getLoc();
  mlir::MLIRContext* context = builder_.getContext();
  const auto inner = static_cast<unsigned>(extents.size());
  llvm::SmallVector<Value> operands;
  llvm::SmallVector<AffineMap> maps;
  for (auto [operand, form] : llvm::zip_equal(op->getOpOperands(), forms)) {
    builder_.setInsertionPoint(op);
    Value value = operand.get();
    llvm::SmallVector<AffineExpr> results(op.getMatchingIndexingMap(&operand).getResults());
    const int position = form == Form::kUntouched ? -1 : positionOf(op.getMatchingIndexingMap(&operand), loop);
    if (form != Form::kUntouched) {
      // The inner channel is the last dimension in every form.
      results.push_back(mlir::getAffineDimExpr(inner, context));
      if (op.isDpsInit(&operand)) {
        llvm::SmallVector<int64_t> shape(tensorType(value).getShape());
        shape[position] /= block;
        shape.push_back(block);
        value = refill(builder_, value, shape);
        if (!value) return false;
      } else if (form == Form::kActivation) {
        value = blocked(value, block);
      } else {
        const int64_t rank = tensorType(value).getRank();
        value = splitDimension(builder_, location, value, position, block);
        llvm::SmallVector<int64_t> order;
        for (int64_t dim = 0; dim <= rank; ++dim) {
          if (dim != position + 1) order.push_back(dim);
        }
        order.push_back(position + 1);
        value = transpose(builder_, location, value, order);
      }
    }
    operands.push_back(value);
    maps.push_back(AffineMap::get(inner + 1, 0, results, context));
  }
  builder_.setInsertionPoint(op);
  llvm::SmallVector<IteratorType> iterators = op.getIteratorTypesArray();
  iterators.push_back(IteratorType::parallel);
  const unsigned inputs = op.getNumDpsInputs();
  mlir::ValueRange all(operands);
  auto result = GenericOp::create(builder_, location, mlir::ValueRange(all.drop_front(inputs)).getTypes(),
                                  all.take_front(inputs), all.drop_front(inputs), maps, iterators);
  builder_.cloneRegionBefore(op.getRegion(), result.getRegion(), result.getRegion().begin());
  for (unsigned r = 0; r < op->getNumResults(); ++r) {
    Value plain = op.getResult(r);
    if (forms[inputs + r] == Form::kActivation) {
      define(plain, result.getResult(r));
    } else {
      plain.replaceAllUsesWith(
          mergeDimensions(builder_, location, result.getResult(r), tensorType(plain).getRank() - 1));
    }
  }
  return true;
}

bool Blocker::blockPad(mlir::tensor::PadOp op) {
  Value source = blocked_.lookup(op.getSource());
  if (!source || op.getStaticLow()[0] != 0 || op.getStaticHigh()[0] != 0 || op.getStaticLow()[1] != 0 ||
      op.getStaticHigh()[1] != 0 || !op.getConstantPaddingValue()) {
    return false;
  }
  llvm::SmallVector<mlir::OpFoldResult> low = op.getMixedLowPad();
  llvm::SmallVector<mlir::OpFoldResult> high = op.getMixedHighPad();
  low.push_back(builder_.getIndexAttr(0));
  high.push_back(builder_.getIndexAttr(0));
  auto type = tensorType(op.getResult());
  auto source_type = tensorType(source);
  llvm::SmallVector<int64_t> shape(source_type.getShape());
  shape[2] = type.getDimSize(2);
  shape[3] = type.getDimSize(3);
  define(op.getResult(),
         mlir::tensor::PadOp::create(builder_, op.getLoc(), RankedTensorType::get(shape, type.getElementType()), source,
                                     low, high, op.getConstantPaddingValue()));
  return true;
}

/// Along channels, if every part is blocked and all blocks are equal; along others likewise.
bool Blocker::blockConcat(mlir::tensor::ConcatOp op) {
  const int64_t block = channelBlock(tensorType(op.getResult()).getDimSize(1), lanes_);
  llvm::SmallVector<Value> parts;
  for (Value input : op.getInputs()) {
    Value part = blocked_.lookup(input);
    if (!part || tensorType(part).getDimSize(4) != block) return false;
    parts.push_back(part);
  }
  define(op.getResult(), mlir::tensor::ConcatOp::create(builder_, op.getLoc(), op.getDim(), parts));
  return true;
}

bool Blocker::visit(mlir::Operation& op) {
  if (op.getNumResults() == 0 || !mlir::isa<RankedTensorType>(op.getResult(0).getType())) return false;
  builder_.setInsertionPoint(&op);
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op)) {
    if (blocked_.contains(pad.getResult())) return true;
    return tensorType(pad.getResult()).getRank() == 4 && blockPad(pad);
  }
  if (auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(op)) {
    return tensorType(concat.getResult()).getRank() == 4 && blockConcat(concat);
  }
  auto generic = mlir::dyn_cast<GenericOp>(op);
  if (!generic) return false;
  if (blockConvolution(generic)) return true;
  // A depthwise convolution is worth transforming for, a pool is not.
  auto dims = mlir::linalg::inferConvolutionDims(generic);
  const bool depthwise = mlir::succeeded(dims) && isMultiplyAccumulate(generic) && dims->depth.size() == 1 &&
                         dims->inputChannel.empty() && dims->outputChannel.empty();
  return blockChannelLoop(generic, depthwise);
}

int Blocker::run() {
  int count = 0;
  llvm::SmallVector<mlir::Operation*> replaced;
  for (mlir::Operation& op : llvm::make_early_inc_range(main_.getBody().front().without_terminator())) {
    if (!visit(op)) continue;
    replaced.push_back(&op);
    ++count;
  }
  for (mlir::Operation* op : llvm::reverse(replaced)) {
    for (Value plain : op->getResults()) {
      if (plain.use_empty()) continue;
      Value value = blocked_.lookup(plain);
      builder_.setInsertionPointAfterValue(value);
      plain.replaceAllUsesWith(unpackChannels(builder_, plain.getLoc(), value));
    }
    op->erase();
  }
  return count;
}

}  // namespace

int assignChannelBlocks(mlir::func::FuncOp main, int64_t lanes) { return Blocker(main, lanes).run(); }

int countLayoutTransforms(mlir::func::FuncOp main) {
  int count = 0;
  main.walk([&](mlir::Operation* op) { count += op->hasAttr(kLayoutTransform) && !op->use_empty(); });
  return count;
}

}  // namespace tessera::compiler
