// Rules for slices, concatenations and paddings of each other.
#include "compiler/graph/rewrites/movement.h"

#include "compiler/graph/analysis/counted_pattern.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/rewrites/movement_rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

using mlir::PatternRewriter;
using mlir::Value;
using mlir::tensor::ConcatOp;
using mlir::tensor::ExtractSliceOp;
using mlir::tensor::PadOp;
using Extents = llvm::SmallVector<int64_t>;

/// Whether the slice has fixed offsets and keeps the rank.
bool isPlain(ExtractSliceOp slice) {
  return slice && kindOf(slice) == OpKind::kSlice && slice.getSourceType().getRank() == slice.getResultType().getRank();
}

Value sliceOf(PatternRewriter& r, ExtractSliceOp like, Value source, llvm::ArrayRef<int64_t> offsets,
              llvm::ArrayRef<int64_t> strides) {
  auto attributes = [&](llvm::ArrayRef<int64_t> values) {
    return mlir::getAsIndexOpFoldResult(r.getContext(), values);
  };
  return ExtractSliceOp::create(r, like.getLoc(), source, attributes(offsets), attributes(like.getStaticSizes()),
                                attributes(strides));
}

Value sliceOfSlice(ExtractSliceOp op, PatternRewriter& r) {
  auto inner = op.getSource().getDefiningOp<ExtractSliceOp>();
  if (!isPlain(op) || !isPlain(inner)) return {};
  Extents offsets, strides;
  for (int64_t d = 0; d < op.getSourceType().getRank(); ++d) {
    // Offsets scale with the inner stride, and strides multiply.
    offsets.push_back(inner.getStaticOffsets()[d] + op.getStaticOffsets()[d] * inner.getStaticStrides()[d]);
    strides.push_back(inner.getStaticStrides()[d] * op.getStaticStrides()[d]);
  }
  return sliceOf(r, op, inner.getSource(), offsets, strides);
}

/// Returns the first and one past the last element that a slice takes along `dim`.
std::pair<int64_t, int64_t> rangeOf(ExtractSliceOp slice, int64_t dim) {
  const int64_t first = slice.getStaticOffsets()[dim];
  return {first, first + (slice.getStaticSizes()[dim] - 1) * slice.getStaticStrides()[dim] + 1};
}

Value sliceOfConcat(ExtractSliceOp op, PatternRewriter& r) {
  auto concat = op.getSource().getDefiningOp<ConcatOp>();
  if (!concat || !isPlain(op)) return {};
  const auto dim = static_cast<int64_t>(concat.getDim());
  auto [first, end] = rangeOf(op, dim);
  int64_t at = 0;
  for (Value part : concat.getInputs()) {
    const int64_t next = at + mlir::cast<mlir::RankedTensorType>(part.getType()).getDimSize(dim);
    // The slice must be within one part.
    if (first >= at && end <= next) {
      Extents offsets(op.getStaticOffsets());
      offsets[dim] -= at;
      return sliceOf(r, op, part, offsets, op.getStaticStrides());
    }
    at = next;
  }
  return {};
}

/// A slice of a padded value without any of the padding.
Value sliceOfPad(ExtractSliceOp op, PatternRewriter& r) {
  auto pad = op.getSource().getDefiningOp<PadOp>();
  if (!pad || !isPlain(op) || !pad.getLow().empty() || !pad.getHigh().empty()) return {};
  Extents offsets(op.getStaticOffsets());
  for (int64_t d = 0; d < op.getSourceType().getRank(); ++d) {
    auto [first, end] = rangeOf(op, d);
    const int64_t low = pad.getStaticLow()[d];
    if (first < low || end > low + pad.getSourceType().getDimSize(d)) return {};
    offsets[d] -= low;
  }
  return sliceOf(r, op, pad.getSource(), offsets, op.getStaticStrides());
}

Value concatOfConcat(ConcatOp op, PatternRewriter& r) {
  llvm::SmallVector<Value> parts;
  for (Value part : op.getInputs()) {
    auto inner = part.getDefiningOp<ConcatOp>();
    // With another reader the inner concatenation would remain, and copies would double.
    if (inner && inner.getDim() == op.getDim() && inner->hasOneUse()) {
      llvm::append_range(parts, inner.getInputs());
    } else {
      parts.push_back(part);
    }
  }
  if (parts.size() == op.getInputs().size()) return {};
  return ConcatOp::create(r, op.getLoc(), op.getResultType(), op.getDim(), parts);
}

/// A concatenation of neighbouring slices of one tensor is one slice.
Value concatOfSlices(ConcatOp op, PatternRewriter& r) {
  const auto dim = static_cast<int64_t>(op.getDim());
  llvm::SmallVector<Value> parts;
  for (Value part : op.getInputs()) {
    auto slice = part.getDefiningOp<ExtractSliceOp>();
    auto before = parts.empty() ? ExtractSliceOp() : parts.back().getDefiningOp<ExtractSliceOp>();
    // Neighbours continue where the last one ended, along this dimension only.
    bool joins = isPlain(slice) && isPlain(before) && slice.getSource() == before.getSource();
    for (int64_t d = 0; joins && d < op.getResultType().getRank(); ++d) {
      joins = before.getStaticStrides()[d] == 1 && slice.getStaticStrides()[d] == 1 &&
              slice.getStaticOffsets()[d] == before.getStaticOffsets()[d] + (d == dim ? before.getStaticSizes()[d] : 0);
    }
    if (!joins) {
      parts.push_back(part);
      continue;
    }
    Extents sizes(before.getStaticSizes());
    sizes[dim] += slice.getStaticSizes()[dim];
    auto attributes = [&](llvm::ArrayRef<int64_t> values) {
      return mlir::getAsIndexOpFoldResult(r.getContext(), values);
    };
    parts.back() = ExtractSliceOp::create(r, op.getLoc(), before.getSource(), attributes(before.getStaticOffsets()),
                                          attributes(sizes), attributes(before.getStaticStrides()));
  }
  if (parts.size() == op.getInputs().size()) return {};
  if (parts.size() > 1) return ConcatOp::create(r, op.getLoc(), op.getResultType(), op.getDim(), parts);
  auto whole = parts[0].getDefiningOp<ExtractSliceOp>();
  // All of a tensor needs no slice.
  return whole.getSourceType() == op.getResultType() ? whole.getSource() : parts[0];
}

Value padOfPad(PadOp op, PatternRewriter& r) {
  auto inner = op.getSource().getDefiningOp<PadOp>();
  if (!inner || !inner->hasOneUse() || op.getNofold() || inner.getNofold()) return {};
  for (PadOp pad : {op, inner}) {
    if (!pad.getLow().empty() || !pad.getHigh().empty()) return {};
    auto negative = [](int64_t amount) { return amount < 0; };
    // Negative padding crops, and the inner padding would hide what is cropped.
    if (llvm::any_of(pad.getStaticLow(), negative) || llvm::any_of(pad.getStaticHigh(), negative)) return {};
  }
  mlir::Attribute with, inner_with;
  Value value = op.getConstantPaddingValue(), inner_value = inner.getConstantPaddingValue();
  // Both paddings must insert the same number.
  if (!value || !inner_value || !mlir::matchPattern(value, mlir::m_Constant(&with)) ||
      !mlir::matchPattern(inner_value, mlir::m_Constant(&inner_with)) || with != inner_with) {
    return {};
  }
  llvm::SmallVector<mlir::OpFoldResult> low, high;
  for (int64_t d = 0; d < op.getResultType().getRank(); ++d) {
    low.push_back(r.getIndexAttr(op.getStaticLow()[d] + inner.getStaticLow()[d]));
    high.push_back(r.getIndexAttr(op.getStaticHigh()[d] + inner.getStaticHigh()[d]));
  }
  Value constant = mlir::arith::ConstantOp::create(r, op.getLoc(), mlir::cast<mlir::TypedAttr>(with));
  return PadOp::create(r, op.getLoc(), op.getResultType(), inner.getSource(), low, high, constant);
}

}  // namespace

void addSliceRules(mlir::RewritePatternSet& patterns, int& count) {
  addCounted<ExtractSliceOp>(patterns, count, {sliceOfSlice, sliceOfConcat, sliceOfPad});
  addCounted<ConcatOp>(patterns, count, {concatOfConcat, concatOfSlices});
  addCounted<PadOp>(patterns, count, {padOfPad});
}

int simplifyMovement(mlir::func::FuncOp main) {
  int count = 0;
  mlir::RewritePatternSet patterns(main.getContext());
  addTransposeRules(patterns, count);
  addSliceRules(patterns, count);
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  return count;
}

}  // namespace tessera::compiler
