#include "compiler/graph/analysis/op_kind.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {
namespace {

OpKind kindOfLinalg(mlir::linalg::LinalgOp op) {
  if (op.getNumParallelLoops() == op.getNumLoops()) {
    for (mlir::OpOperand& init : op.getDpsInitsMutable()) {
      if (!op.getMatchingIndexingMap(&init).isIdentity()) return OpKind::kOpaque;
    }
    return OpKind::kElementwise;
  }
  // An input that does not vary along every loop, or that is indexed by a sum of loops, is read repeatedly.
  for (mlir::OpOperand* input : op.getDpsInputOperands()) {
    mlir::AffineMap map = op.getMatchingIndexingMap(input);
    if (!map.isProjectedPermutation()) return OpKind::kHeavy;
  }
  int full_reads = 0;
  for (mlir::OpOperand* input : op.getDpsInputOperands()) {
    if (op.getMatchingIndexingMap(input).isPermutation()) ++full_reads;
  }
  return full_reads > 0 ? OpKind::kReduction : OpKind::kHeavy;
}

}  // namespace

OpKind kindOf(mlir::Operation* op) {
  if (mlir::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op)) return OpKind::kView;
  if (auto slice = mlir::dyn_cast<mlir::tensor::ExtractSliceOp>(op)) {
    return slice.getOffsets().empty() && slice.getSizes().empty() && slice.getStrides().empty() ? OpKind::kSlice
                                                                                                : OpKind::kOpaque;
  }
  if (mlir::isa<mlir::tensor::EmptyOp, mlir::linalg::FillOp>(op) || op->hasTrait<mlir::OpTrait::ConstantLike>()) {
    return OpKind::kCloned;
  }
  if (op->getNumResults() > 0 && mlir::isMemoryEffectFree(op) &&
      llvm::none_of(op->getResultTypes(), [](mlir::Type type) { return mlir::isa<mlir::ShapedType>(type); })) {
    return OpKind::kCloned;
  }
  if (mlir::isa<mlir::tensor::PadOp>(op)) return OpKind::kPad;
  if (auto linalg_op = mlir::dyn_cast<mlir::linalg::LinalgOp>(op)) return kindOfLinalg(linalg_op);
  return OpKind::kOpaque;
}

bool isIdentityAccess(mlir::linalg::LinalgOp op, mlir::OpOperand* operand) {
  return op.getMatchingIndexingMap(operand).isIdentity();
}

bool isCheapToRepeat(mlir::linalg::GenericOp op) {
  if (op.getNumParallelLoops() != op.getNumLoops()) return false;
  for (mlir::Operation& inner : op.getBody()->without_terminator()) {
    if (!mlir::isa<mlir::arith::ExtFOp, mlir::arith::TruncFOp, mlir::arith::ExtSIOp, mlir::arith::ExtUIOp,
                   mlir::arith::TruncIOp, mlir::arith::SIToFPOp, mlir::arith::UIToFPOp, mlir::arith::ConstantOp>(
            inner)) {
      return false;
    }
  }
  return true;
}

bool isChannelwiseWindow(mlir::linalg::GenericOp op) {
  if (op.getNumDpsInputs() == 0 || op.getNumReductionLoops() == 0) return false;
  auto dims = mlir::linalg::inferConvolutionDims(op);
  return mlir::succeeded(dims) && !dims->outputImage.empty() && !dims->filterLoop.empty() &&
         dims->outputChannel.empty() && dims->inputChannel.empty();
}

}  // namespace tessera::compiler
