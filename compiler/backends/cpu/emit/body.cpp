#include "compiler/backends/cpu/emit/body.h"

#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;

/// A product that only a sum reads is not emitted here: the sum becomes a fused multiply-add.
bool isFusedProduct(mlir::Operation& op) {
  auto product = llvm::dyn_cast<arith::MulFOp>(op);
  return product && product->hasOneUse() && llvm::isa<arith::AddFOp>(*product->user_begin()) &&
         product->getBlock() == product->user_begin()->getBlock();
}

}  // namespace

mlir::Type BodyContext::typeOf(mlir::Type element) const {
  return lanes == 1 ? element : mlir::VectorType::get({lanes}, element);
}

mlir::Value BodyContext::broadcast(mlir::Value scalar) const {
  if (lanes == 1 || llvm::isa<mlir::VectorType>(scalar.getType())) return scalar;
  return mlir::vector::BroadcastOp::create(builder, scalar.getLoc(), typeOf(scalar.getType()), scalar);
}

mlir::Value BodyContext::constant(mlir::TypedAttr value) const {
  const mlir::Location loc = builder.getUnknownLoc();
  if (lanes == 1) return arith::ConstantOp::create(builder, loc, value);
  auto type = mlir::VectorType::get({lanes}, value.getType());
  return arith::ConstantOp::create(builder, loc, mlir::DenseElementsAttr::get(type, mlir::Attribute(value)));
}

llvm::SmallVector<mlir::Value> emitBody(const BodyContext& context, mlir::Block& body,
                                        llvm::ArrayRef<mlir::Value> arguments) {
  mlir::IRMapping mapping;
  mlir::OpBuilder& builder = context.builder;
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments)) mapping.map(argument, value);
  auto lookup = [&](mlir::Value value) -> mlir::Value {
    if (mlir::Value mapped = mapping.lookupOrNull(value)) return mapped;
    // Values from outside of the body are the same for all lanes.
    mlir::Value outer = context.outer(value);
    return isScalarType(outer.getType()) ? context.broadcast(outer) : outer;
  };
  for (mlir::Operation& op : body.without_terminator()) {
    if (auto index = llvm::dyn_cast<mlir::linalg::IndexOp>(op)) {
      mapping.map(index.getResult(), context.index(static_cast<int>(index.getDim())));
      continue;
    }
    if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op)) {
      mapping.map(constant.getResult(), context.constant(constant.getValue()));
      continue;
    }
    // A load whose address does not depend on the point is executed once and broadcast.
    if (isInvariantLoad(op)) {
      mlir::IRMapping outer;
      for (mlir::Value operand : op.getOperands()) outer.map(operand, context.outer(operand));
      mapping.map(op.getResult(0), context.broadcast(builder.clone(op, outer)->getResult(0)));
      continue;
    }
    if (context.fuse_multiply_add) {
      if (isFusedProduct(op)) continue;
      if (auto sum = llvm::dyn_cast<arith::AddFOp>(op)) {
        mlir::Operation* product = sum.getRhs().getDefiningOp();
        mlir::Value addend = sum.getLhs();
        if (!product || product->getBlock() != &body || !isFusedProduct(*product)) {
          product = sum.getLhs().getDefiningOp();
          addend = sum.getRhs();
        }
        if (product && product->getBlock() == &body && isFusedProduct(*product)) {
          // If both operands of the sum are products, only one can be fused; the other is computed here.
          if (auto* other = addend.getDefiningOp();
              other && !mapping.contains(addend) && other->getBlock() == &body && isFusedProduct(*other)) {
            mapping.map(addend, arith::MulFOp::create(builder, op.getLoc(), lookup(other->getOperand(0)),
                                                      lookup(other->getOperand(1)))
                                    .getResult());
          }
          mapping.map(sum.getResult(), mlir::math::FmaOp::create(builder, op.getLoc(), lookup(product->getOperand(0)),
                                                                 lookup(product->getOperand(1)), lookup(addend))
                                           .getResult());
          continue;
        }
      }
    }
    if (context.lanes == 1) {
      // For any operation, nested regions included: map the values that it captures, then clone it.
      for (mlir::Value operand : op.getOperands())
        if (!mapping.contains(operand)) mapping.map(operand, lookup(operand));
      llvm::SetVector<mlir::Value> captured;
      for (mlir::Region& region : op.getRegions()) mlir::getUsedValuesDefinedAbove(region, captured);
      for (mlir::Value value : captured)
        if (!mapping.contains(value)) mapping.map(value, lookup(value));
      mlir::Operation* clone = builder.clone(op, mapping);
      llvm::SmallVector<mlir::linalg::IndexOp> indices;
      clone->walk([&](mlir::linalg::IndexOp index) { indices.push_back(index); });
      for (mlir::linalg::IndexOp index : indices) {
        mlir::OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(clone);
        index.replaceAllUsesWith(context.index(static_cast<int>(index.getDim())));
        index.erase();
      }
      continue;
    }
    // The same operation on vector types: scalar dialect operations are elementwise.
    mlir::OperationState state(op.getLoc(), op.getName());
    for (mlir::Value operand : op.getOperands()) state.operands.push_back(lookup(operand));
    for (mlir::Type type : op.getResultTypes()) state.types.push_back(context.typeOf(type));
    state.attributes = op.getDiscardableAttrDictionary().getValue();
    state.propertiesAttr = op.getPropertiesAsAttribute();
    mlir::Operation* vector = builder.create(state);
    mapping.map(op.getResults(), vector->getResults());
  }
  llvm::SmallVector<mlir::Value> results;
  for (mlir::Value yielded : body.getTerminator()->getOperands()) results.push_back(lookup(yielded));
  return results;
}

}  // namespace tessera::compiler::codegen
