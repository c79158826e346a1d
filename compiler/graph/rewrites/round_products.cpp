#include "compiler/graph/rewrites/round_products.h"

#include "compiler/graph/analysis/each_element.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
namespace tensor = mlir::tensor;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;

bool isRoundable(GenericOp op, const ProductRounding& rounding) {
  if (!isMultiplyAccumulate(op) || op.getNumReductionLoops() == 0 || !op.hasPureTensorSemantics()) return false;
  auto isSingle = [](Value value) {
    auto type = mlir::dyn_cast<RankedTensorType>(value.getType());
    return type && type.getElementType().isF32();
  };
  if (!llvm::all_of(op->getOperands(), isSingle)) return false;
  const bool known[] = {isKnownAtCompileTime(op.getDpsInputs()[0]), isKnownAtCompileTime(op.getDpsInputs()[1])};
  const bool one = known[0] != known[1], none = !known[0] && !known[1];
  return (one || (none && rounding.activations)) && !isChannelwiseWindow(op);
}

class Rounder {
 public:
  Rounder(mlir::func::FuncOp main, const ProductRounding& rounding)
      : builder_(main.getContext()),
        half_(rounding.to == v1::DATA_TYPE_F16 ? mlir::Type(builder_.getF16Type())
                                               : mlir::Type(builder_.getBF16Type())) {}

  void round(GenericOp op) {
    llvm::SmallVector<Value> inputs;
    for (Value input : op.getDpsInputs()) inputs.push_back(rounded(input));
    builder_.setInsertionPoint(op);
    auto product = GenericOp::create(
        builder_, op.getLoc(), op->getResultTypes(), inputs, op.getDpsInits(), op.getIndexingMapsArray(),
        op.getIteratorTypesArray(), [](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
          Value x = arith::ExtFOp::create(b, at, b.getF32Type(), v[0]);
          Value w = arith::ExtFOp::create(b, at, b.getF32Type(), v[1]);
          Value term = arith::MulFOp::create(b, at, x, w);
          mlir::linalg::YieldOp::create(b, at, arith::AddFOp::create(b, at, v[2], term).getResult());
        });
    op.getResult(0).replaceAllUsesWith(product.getResult(0));
    op.erase();
  }

  /// Other readers of a rounded activation read the stored value of 16 bits, each through its own conversion: a shared
  /// conversion would be a copy.
  void shareRounded() {
    for (auto& [value, half] : activations_) {
      mlir::Operation* rounding = half.getDefiningOp();
      for (mlir::OpOperand& use : llvm::make_early_inc_range(value.getUses())) {
        mlir::Operation* reader = use.getOwner();
        if (reader == rounding || mlir::isa<mlir::func::ReturnOp>(reader)) continue;
        if (reader->getBlock() != rounding->getBlock() || !rounding->isBeforeInBlock(reader)) continue;
        builder_.setInsertionPoint(reader);
        use.set(mapElements(builder_, value.getLoc(), half, builder_.getF32Type(),
                            [](OpBuilder& b, mlir::Location at, Value element) -> Value {
                              return arith::ExtFOp::create(b, at, b.getF32Type(), element);
                            }));
      }
    }
  }

 private:
  /// Returns `value` in 16 bits, rounded by its producer, before data movement.
  Value rounded(Value value) {
    if (Value known = rounded_.lookup(value)) return known;
    Value result = moved(value);
    if (!result) {
      builder_.setInsertionPointAfterValue(value);
      result = mapElements(builder_, value.getLoc(), value, half_,
                           [this](OpBuilder& b, mlir::Location at, Value element) -> Value {
                             return arith::TruncFOp::create(b, at, half_, element);
                           });
      if (value.getDefiningOp() && !isKnownAtCompileTime(value)) activations_.emplace_back(value, result);
    }
    return rounded_[value] = result;
  }

  /// Returns a view, slice, transpose or zero padding of the rounded operand; null for other operations.
  Value moved(Value value) {
    mlir::Operation* op = value.getDefiningOp();
    if (!op) return {};
    auto pad = mlir::dyn_cast<tensor::PadOp>(op);
    if (pad) {
      Value with = pad.getConstantPaddingValue();
      if (!with || !mlir::matchPattern(with, mlir::m_AnyZeroFloat())) return {};
    } else if (!permutationOf(op).empty()) {
      Value source = rounded(op->getOperand(0));
      builder_.setInsertionPoint(op);
      auto type = mlir::cast<RankedTensorType>(value.getType());
      Value empty = tensor::EmptyOp::create(builder_, op->getLoc(), type.getShape(), half_);
      auto transpose = mlir::cast<GenericOp>(op);
      return GenericOp::create(builder_, op->getLoc(), empty.getType(), source, empty, transpose.getIndexingMapsArray(),
                               transpose.getIteratorTypesArray(),
                               [](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
                                 mlir::linalg::YieldOp::create(b, at, v[0]);
                               })
          .getResult(0);
    } else if (!mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(op)) {
      return {};
    }
    Value source = rounded(op->getOperand(0));
    builder_.setInsertionPoint(op);
    mlir::Operation* copy = builder_.clone(*op);
    copy->setOperand(0, source);
    auto type = mlir::cast<RankedTensorType>(value.getType());
    copy->getResult(0).setType(type.clone(half_));
    if (pad) {
      auto padded = mlir::cast<tensor::PadOp>(copy);
      builder_.setInsertionPoint(padded);
      Value zero = arith::ConstantOp::create(builder_, op->getLoc(), builder_.getFloatAttr(half_, 0.0));
      padded.getRegion().front().getTerminator()->setOperand(0, zero);
    }
    return copy->getResult(0);
  }

  OpBuilder builder_;
  mlir::Type half_;  ///< the type of rounded elements
  llvm::DenseMap<Value, Value> rounded_;
  llvm::SmallVector<std::pair<Value, Value>> activations_;  ///< values computed by the model, and their rounded forms
};

}  // namespace

int roundProducts(mlir::func::FuncOp main, const ProductRounding& rounding) {
  llvm::SmallVector<GenericOp> products;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>())
    if (isRoundable(op, rounding)) products.push_back(op);
  Rounder rounder(main, rounding);
  for (GenericOp op : products) rounder.round(op);
  rounder.shareRounded();
  return static_cast<int>(products.size());
}

}  // namespace tessera::compiler
