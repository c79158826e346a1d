#include "compiler/graph/constants/narrow_reads.h"

#include <utility>

#include "compiler/graph/analysis/op_kind.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;
using mlir::tensor::ExtractSliceOp;

/// Offsets, sizes and steps along the loops of an operation or the dimensions of a tensor.
struct Box {
  llvm::SmallVector<int64_t> offsets, sizes, steps;

  explicit Box(llvm::ArrayRef<int64_t> extents)
      : offsets(extents.size(), 0), sizes(extents), steps(extents.size(), 1) {}
};

Value sliceOf(mlir::OpBuilder& b, mlir::Location location, Value value, const Box& box) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  if (type.getShape() == llvm::ArrayRef<int64_t>(box.sizes)) return value;
  return ExtractSliceOp::create(b, location, RankedTensorType::get(box.sizes, type.getElementType()), value,
                                mlir::ValueRange{}, mlir::ValueRange{}, mlir::ValueRange{}, box.offsets, box.sizes,
                                box.steps);
}

class Narrower {
 public:
  Narrower(mlir::func::FuncOp main, llvm::function_ref<bool(Value)> isConstant)
      : main_(main), isConstant_(isConstant) {}

  int run() {
    // Readers come first; a later round handles the slices of operands that this one creates.
    for (auto slice : main_.getBody().front().getOps<ExtractSliceOp>()) next_.push_back(slice);
    int count = 0;
    while (!next_.empty()) {
      llvm::SmallVector<ExtractSliceOp> open;
      std::swap(open, next_);
      little_.clear();
      for (ExtractSliceOp slice : llvm::reverse(open)) count += narrowSlice(slice);
    }
    return count;
  }

 private:
  bool narrowSlice(ExtractSliceOp slice) {
    mlir::Operation* producer = slice.getSource().getDefiningOp();
    if (!producer || !isMade(slice.getSource()) || kindOf(slice) != OpKind::kSlice || !readsLittle(slice.getSource()))
      return false;
    const Value narrowed = narrow(slice);
    if (!narrowed) return false;
    made_.insert(narrowed);
    slice.getResult().replaceAllUsesWith(narrowed);
    slice.erase();
    // A dead producer would count in the next round as a reader of its operands that is not a slice.
    if (producer->use_empty()) producer->erase();
    return true;
  }

  /// `isConstant_` does not know operations that this class created.
  bool isMade(Value value) { return made_.contains(value) || isConstant_(value); }

  /// Whether only slices read `source`, and less than all of it. Cached per value.
  bool readsLittle(Value source) {
    auto [known, fresh] = little_.try_emplace(source, false);
    if (!fresh) return known->second;
    int64_t read = 0;
    for (mlir::Operation* user : source.getUsers()) {
      auto slice = mlir::dyn_cast<ExtractSliceOp>(user);
      if (!slice || kindOf(slice) != OpKind::kSlice) return false;
      read += slice.getResultType().getNumElements();
    }
    return known->second = read < mlir::cast<RankedTensorType>(source.getType()).getNumElements();
  }

  Value narrow(ExtractSliceOp slice) {
    mlir::OpBuilder b(slice);
    const RankedTensorType type = slice.getResultType();
    mlir::Operation* producer = slice.getSource().getDefiningOp();
    if (auto fill = mlir::dyn_cast<mlir::linalg::FillOp>(producer)) {
      Value empty = mlir::tensor::EmptyOp::create(b, slice.getLoc(), type.getShape(), type.getElementType());
      return mlir::linalg::FillOp::create(b, slice.getLoc(), fill.getInputs()[0], empty).getResult(0);
    }
    if (mlir::isa<mlir::tensor::EmptyOp>(producer))
      return mlir::tensor::EmptyOp::create(b, slice.getLoc(), type.getShape(), type.getElementType());
    if (auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(producer)) {
      auto elements = mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue());
      return elements ? mlir::arith::ConstantOp::create(b, slice.getLoc(), elements.resizeSplat(type)) : Value();
    }
    auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(producer);
    return generic ? narrowGeneric(b, slice, generic) : Value();
  }

  Value narrowGeneric(mlir::OpBuilder& b, ExtractSliceOp slice, mlir::linalg::GenericOp op) {
    const RankedTensorType type = slice.getResultType();
    if (op->getNumResults() != 1 || op.hasIndexSemantics() || type.getRank() != slice.getSourceType().getRank())
      return {};
    const llvm::SmallVector<mlir::AffineMap> maps = op.getIndexingMapsArray();
    if (!llvm::all_of(maps, [](mlir::AffineMap map) { return map.isProjectedPermutation(); })) return {};
    Box loops(op.getStaticLoopRanges());
    for (auto [dim, result] : llvm::enumerate(maps.back().getResults())) {
      const unsigned loop = mlir::cast<mlir::AffineDimExpr>(result).getPosition();
      loops.offsets[loop] = slice.getStaticOffsets()[dim];
      loops.sizes[loop] = slice.getStaticSizes()[dim];
      loops.steps[loop] = slice.getStaticStrides()[dim];
    }
    llvm::SmallVector<Value> operands;
    for (auto [operand, map] : llvm::zip_equal(op->getOperands(), maps)) {
      auto whole = mlir::dyn_cast<RankedTensorType>(operand.getType());
      if (!whole) {
        operands.push_back(operand);
        continue;
      }
      Box box(whole.getShape());
      for (auto [dim, result] : llvm::enumerate(map.getResults())) {
        const unsigned loop = mlir::cast<mlir::AffineDimExpr>(result).getPosition();
        box.offsets[dim] = loops.offsets[loop];
        box.sizes[dim] = loops.sizes[loop];
        box.steps[dim] = loops.steps[loop];
      }
      operands.push_back(sliceOf(b, slice.getLoc(), operand, box));
      if (operands.back() == operand) continue;
      made_.insert(operands.back());
      next_.push_back(operands.back().getDefiningOp<ExtractSliceOp>());
    }
    const unsigned inputs = op.getNumDpsInputs();
    auto narrowed = mlir::linalg::GenericOp::create(
        b, op.getLoc(), mlir::TypeRange{operands.back().getType()}, mlir::ValueRange(operands).take_front(inputs),
        mlir::ValueRange(operands).drop_front(inputs), maps, op.getIteratorTypesArray());
    b.cloneRegionBefore(op.getRegion(), narrowed.getRegion(), narrowed.getRegion().begin());
    return narrowed.getResult(0);
  }

  mlir::func::FuncOp main_;
  llvm::function_ref<bool(Value)> isConstant_;
  llvm::SmallVector<ExtractSliceOp> next_;
  llvm::DenseSet<Value> made_;
  llvm::DenseMap<Value, bool> little_;
};

}  // namespace

int sinkSlicesIntoConstants(mlir::func::FuncOp main, llvm::function_ref<bool(Value)> isConstant) {
  return Narrower(main, isConstant).run();
}

}  // namespace tessera::compiler
