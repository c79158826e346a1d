#include "compiler/graph/rewrites/wide_splits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/graph/analysis/op_kind.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;
using mlir::tensor::ExtractSliceOp;

constexpr int64_t kSplitFanOut = 32;

/// One of the equal parts of its source along a dimension; it has the other dimensions whole.
struct SlicedPart {
  int64_t dim = -1, size = 0;
  bool operator<(const SlicedPart& other) const { return std::pair(dim, size) < std::pair(other.dim, other.size); }
};

/// Returns nothing if the slice has another form.
std::optional<SlicedPart> partOf(ExtractSliceOp slice) {
  if (kindOf(slice) != OpKind::kSlice || !slice.hasUnitStride()) return std::nullopt;
  SlicedPart part;
  for (const auto& [dim, extent] : llvm::enumerate(slice.getSourceType().getShape())) {
    if (slice.getStaticSizes()[dim] == extent) continue;
    if (part.dim >= 0 || slice.getStaticOffsets()[dim] % slice.getStaticSizes()[dim] != 0) return std::nullopt;
    part = {static_cast<int64_t>(dim), slice.getStaticSizes()[dim]};
  }
  return part.dim < 0 ? std::nullopt : std::optional(part);
}

void setOffset(ExtractSliceOp slice, Value source, const SlicedPart& part, int64_t offset) {
  llvm::SmallVector<int64_t> offsets(slice.getStaticOffsets());
  offsets[part.dim] = offset;
  slice.setStaticOffsets(offsets);
  slice.getSourceMutable().assign(source);
}

/// Copies the part [offset, offset + size) of `source` along the dimension into its own memory.
Value copyOf(mlir::OpBuilder& b, mlir::Location location, Value source, int64_t dim, int64_t offset, int64_t size) {
  const auto whole = mlir::cast<RankedTensorType>(source.getType());
  llvm::SmallVector<int64_t> offsets(whole.getRank(), 0), sizes(whole.getShape()), strides(whole.getRank(), 1);
  offsets[dim] = offset;
  sizes[dim] = size;
  const auto type = RankedTensorType::get(sizes, whole.getElementType());
  Value part = ExtractSliceOp::create(b, location, type, source, mlir::ValueRange{}, mlir::ValueRange{},
                                      mlir::ValueRange{}, offsets, sizes, strides);
  Value empty = mlir::tensor::EmptyOp::create(b, location, sizes, whole.getElementType());
  const mlir::AffineMap identity = b.getMultiDimIdentityMap(static_cast<unsigned>(whole.getRank()));
  const llvm::SmallVector<mlir::utils::IteratorType> loops(whole.getRank(), mlir::utils::IteratorType::parallel);
  return mlir::linalg::GenericOp::create(b, location, type, part, empty,
                                         llvm::ArrayRef<mlir::AffineMap>{identity, identity}, loops,
                                         [](mlir::OpBuilder& inner, mlir::Location at, mlir::ValueRange operands) {
                                           mlir::linalg::YieldOp::create(inner, at, operands[0]);
                                         })
      .getResult(0);
}

/// Makes slices, keyed by their offsets in `source`, read from copies of it.
void cut(mlir::OpBuilder& b, Value source, const SlicedPart& part,
         const std::multimap<int64_t, ExtractSliceOp>& slices) {
  const int64_t extent = mlir::cast<RankedTensorType>(source.getType()).getDimSize(part.dim);
  int64_t span = part.size * kSplitFanOut;
  while (span * kSplitFanOut < extent) span *= kSplitFanOut;
  for (auto first = slices.begin(); first != slices.end();) {
    const int64_t offset = first->first / span * span;
    const auto end = slices.lower_bound(offset + span);
    const int64_t size = std::min(span, extent - offset);
    const Value copy = copyOf(b, source.getLoc(), source, part.dim, offset, size);
    std::multimap<int64_t, ExtractSliceOp> inside;
    for (; first != end; ++first) inside.emplace(first->first - offset, first->second);
    if (size > part.size * kSplitFanOut) {
      cut(b, copy, part, inside);
    } else {
      for (const auto& [within, slice] : inside) setOffset(slice, copy, part, within);
    }
  }
}

}  // namespace

int stageWideSplits(mlir::func::FuncOp main) {
  mlir::Block& body = main.getBody().front();
  llvm::MapVector<Value, std::map<SlicedPart, std::multimap<int64_t, ExtractSliceOp>>> slices;  // by offset
  for (auto slice : body.getOps<ExtractSliceOp>()) {
    if (const auto part = partOf(slice))
      slices[slice.getSource()][*part].emplace(slice.getStaticOffsets()[static_cast<size_t>(part->dim)], slice);
  }
  int count = 0;
  for (auto& [source, parts] : slices) {
    for (auto& [part, same] : parts) {
      if (same.size() <= static_cast<size_t>(kMaxSplitParts)) continue;
      mlir::OpBuilder b(main.getContext());
      if (mlir::Operation* producer = source.getDefiningOp()) {
        b.setInsertionPointAfter(producer);
      } else {
        b.setInsertionPointToStart(&body);
      }
      cut(b, source, part, same);
      ++count;
    }
  }
  return count;
}

}  // namespace tessera::compiler
