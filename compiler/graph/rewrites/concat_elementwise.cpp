#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/rewrites/concat.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::ConcatOp;

/// With more parts, the additional steps cost more than the pass over the whole.
constexpr size_t kMaxParts = 8;

/// Returns the part [offset, offset + size) of `value` along `dim`.
Value partOf(mlir::OpBuilder& b, mlir::Location location, Value value, int64_t dim, int64_t offset, int64_t size) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  llvm::SmallVector<mlir::OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0)), sizes,
      strides(type.getRank(), b.getIndexAttr(1));
  for (int64_t extent : type.getShape()) sizes.push_back(b.getIndexAttr(extent));
  offsets[dim] = b.getIndexAttr(offset);
  sizes[dim] = b.getIndexAttr(size);
  return mlir::tensor::ExtractSliceOp::create(b, location, value, offsets, sizes, strides);
}

/// Whether operations compute all parts for the concatenation alone, so that each can do the elementwise operation as
/// well.
bool joinsFreshParts(ConcatOp concat) {
  return concat->hasOneUse() && concat.getInputs().size() <= kMaxParts &&
         llvm::all_of(concat.getInputs(), [](Value part) {
           mlir::Operation* producer = part.getDefiningOp();
           while (producer && part.hasOneUse() && kindOf(producer) == OpKind::kView) {
             part = producer->getOperand(0);
             producer = part.getDefiningOp();
           }
           return producer && part.hasOneUse() && mlir::isa<GenericOp>(producer);
         });
}

bool split(GenericOp op) {
  if (kindOf(op) != OpKind::kElementwise || op->getNumResults() != 1 || op.hasIndexSemantics()) return false;
  // An initial value that is read would have to be split as well.
  if (!op.getDpsInits()[0].getDefiningOp<mlir::tensor::EmptyOp>()) return false;
  ConcatOp concat;
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [index, input] : llvm::enumerate(op.getDpsInputs())) {
    auto candidate = input.getDefiningOp<ConcatOp>();
    if (candidate && maps[index].isIdentity() && joinsFreshParts(candidate)) concat = candidate;
  }
  if (!concat) return false;
  const auto dim = static_cast<unsigned>(concat.getDim());
  // The dimension of each other operand that varies along the concatenation; -1: none.
  llvm::SmallVector<int64_t> positions;
  for (auto [index, input] : llvm::enumerate(op.getDpsInputs())) {
    int64_t position = -1;
    for (auto [at, result] : llvm::enumerate(maps[index].getResults())) {
      if (!result.isFunctionOfDim(dim)) continue;
      if (position >= 0 || !mlir::isa<mlir::AffineDimExpr>(result)) return false;
      position = static_cast<int64_t>(at);
    }
    positions.push_back(position);
  }
  mlir::OpBuilder b(op);
  auto type = mlir::cast<RankedTensorType>(op.getResult(0).getType());
  llvm::SmallVector<Value> results;
  int64_t offset = 0;
  for (Value part : concat.getInputs()) {
    auto part_type = mlir::cast<RankedTensorType>(part.getType());
    const int64_t size = part_type.getDimSize(dim);
    llvm::SmallVector<Value> inputs;
    for (auto [index, input] : llvm::enumerate(op.getDpsInputs())) {
      if (input == concat.getResult()) {
        inputs.push_back(part);
      } else if (positions[index] < 0) {
        // An operand that does not vary along the concatenation serves all parts.
        inputs.push_back(input);
      } else {
        inputs.push_back(partOf(b, op.getLoc(), input, positions[index], offset, size));
      }
    }
    Value empty = mlir::tensor::EmptyOp::create(b, op.getLoc(), part_type.getShape(), type.getElementType());
    auto piece = GenericOp::create(b, op.getLoc(), mlir::TypeRange{empty.getType()}, inputs, mlir::ValueRange{empty},
                                   maps, op.getIteratorTypesArray());
    b.cloneRegionBefore(op.getRegion(), piece.getRegion(), piece.getRegion().begin());
    results.push_back(piece.getResult(0));
    offset += size;
  }
  // Concatenates afterwards: the same values in the same places.
  op.getResult(0).replaceAllUsesWith(ConcatOp::create(b, concat.getLoc(), type, dim, results));
  op.erase();
  concat.erase();
  return true;
}

}  // namespace

int splitElementwiseOfConcat(mlir::func::FuncOp main) {
  int count = 0;
  // In program order, so that operations after a split one see the new concatenation.
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) count += split(op);
  return count;
}

}  // namespace tessera::compiler
