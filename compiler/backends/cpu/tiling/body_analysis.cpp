#include "compiler/backends/cpu/tiling/body_analysis.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;

}  // namespace

bool isScalarType(mlir::Type type) { return type.isIntOrIndexOrFloat(); }

bool isInvariantLoad(mlir::Operation& op) {
  // No operand is computed in the body, so the address is the same at every point.
  return llvm::isa<mlir::memref::LoadOp>(op) &&
         llvm::all_of(op.getOperands(), [&](mlir::Value operand) { return operand.getParentBlock() != op.getBlock(); });
}

bool isVectorizableBody(mlir::Block& body) {
  for (mlir::Operation& op : body.without_terminator()) {
    if (llvm::isa<mlir::linalg::IndexOp, arith::ConstantOp>(op) || isInvariantLoad(op)) continue;
    if (!mlir::OpTrait::hasElementwiseMappableTraits(&op) || op.getNumRegions() != 0) return false;
    if (!llvm::all_of(op.getOperandTypes(), isScalarType) || !llvm::all_of(op.getResultTypes(), isScalarType))
      return false;
    // Lanes past the end of a loop hold arbitrary values, and integer division by zero traps.
    if (llvm::isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
                  arith::CeilDivUIOp, arith::FloorDivSIOp>(op)) {
      mlir::APInt divisor;
      if (!mlir::matchPattern(op.getOperand(1), mlir::m_ConstantInt(&divisor)) || divisor.isZero()) return false;
    }
  }
  return true;
}

int bodyCost(mlir::Block& body) {
  int cost = 0;
  for (mlir::Operation& op : body.without_terminator()) {
    if (llvm::isa<arith::ConstantOp>(op)) continue;
    // Mathematical functions become formulas of many instructions (math/); 16 stands for all of them.
    cost += op.getDialect() && op.getDialect()->getNamespace() == "math" ? 16 : 1;
  }
  return cost;
}

}  // namespace tessera::compiler::codegen
