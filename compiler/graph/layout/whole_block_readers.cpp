#include "compiler/graph/layout/whole_block_readers.h"

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::ExtractSliceOp;

namespace {

/// Whether the reader divides integers: dividing by a zero in the part that is cut off would trap.
bool dividesIntegers(GenericOp reader) {
  return llvm::any_of(reader.getRegion().front(), [](mlir::Operation& op) {
    return mlir::isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
                     arith::CeilDivUIOp, arith::FloorDivSIOp>(op);
  });
}

}  // namespace

bool canComputeWhole(GenericOp reader, Value cut, llvm::ArrayRef<int64_t> whole) {
  // The reader must compute each element from elements at the same point, so that more of them change nothing.
  if (kindOf(reader) != OpKind::kElementwise || reader->getNumResults() != 1 || reader.hasIndexSemantics() ||
      reader.payloadUsesValueFromOperand(reader.getDpsInitOperand(0)) || dividesIntegers(reader))
    return false;
  const auto shape = mlir::cast<RankedTensorType>(cut.getType()).getShape();
  for (mlir::OpOperand& operand : reader->getOpOperands()) {
    const AffineMap map = reader.getMatchingIndexingMap(&operand);
    if (operand.get() == cut || reader.isDpsInit(&operand)) {
      if (!map.isIdentity()) return false;
      continue;
    }
    // A constant operand can be filled up; another one has no values beyond the cut.
    const bool can_fill = isKnownAtCompileTime(operand.get()) && map.isProjectedPermutation();
    for (size_t d = 0; d < whole.size(); ++d)
      if (shape[d] != whole[d] && map.isFunctionOfDim(d) && !can_fill) return false;
  }
  return true;
}

ExtractSliceOp sinkSlice(GenericOp reader, ExtractSliceOp slice) {
  OpBuilder b(reader);
  const llvm::ArrayRef<int64_t> whole = slice.getSourceType().getShape(), shape = slice.getType().getShape();
  auto type =
      RankedTensorType::get(whole, mlir::cast<RankedTensorType>(reader.getResult(0).getType()).getElementType());
  llvm::SmallVector<Value> operands;
  for (mlir::OpOperand& operand : reader->getOpOperands()) {
    if (reader.isDpsInit(&operand)) {
      operands.push_back(mlir::tensor::EmptyOp::create(b, reader.getLoc(), type.getShape(), type.getElementType()));
      continue;
    }
    Value& read = operands.emplace_back(operand.get() == slice.getResult() ? slice.getSource() : operand.get());
    if (read == slice.getSource()) continue;
    const AffineMap map = reader.getMatchingIndexingMap(&operand);
    // Constant operands along cut dimensions grow by zeros.
    for (size_t d = 0; d < whole.size(); ++d)
      if (shape[d] != whole[d] && map.isFunctionOfDim(d))
        read = padDimension(b, reader.getLoc(), read, *map.getResultPosition(b.getAffineDimExpr(d)), whole[d]);
  }
  auto all = mlir::cast<GenericOp>(mlir::clone(b, reader.getOperation(), mlir::TypeRange{type}, operands));
  // Slices the result instead of the operand.
  auto cut =
      ExtractSliceOp::create(b, slice.getLoc(), mlir::cast<RankedTensorType>(reader.getResult(0).getType()),
                             all.getResult(0), slice.getMixedOffsets(), slice.getMixedSizes(), slice.getMixedStrides());
  reader.getResult(0).replaceAllUsesWith(cut.getResult());
  reader.erase();
  slice.erase();
  return cut;
}

}  // namespace tessera::compiler
