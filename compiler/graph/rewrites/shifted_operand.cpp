#include "compiler/graph/rewrites/shifted_operand.h"

#include <cstring>

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Most views, slices and paddings to trace through; each is rebuilt for the product.
constexpr int kLongestWay = 16;

/// An 8-bit argument of a body, extended to 32 bits.
struct Extended {
  mlir::BlockArgument argument;
  bool is_signed = false;
};

std::optional<Extended> extendedOf(Value value) {
  mlir::Operation* op = value.getDefiningOp();
  if (!op || !mlir::isa<arith::ExtSIOp, arith::ExtUIOp>(op) || !value.getType().isInteger(32)) return std::nullopt;
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(op->getOperand(0));
  if (!argument || !argument.getType().isInteger(8)) return std::nullopt;
  return Extended{argument, mlir::isa<arith::ExtSIOp>(op)};
}

/// Returns the common value of all elements of an 8-bit tensor, if it is known.
std::optional<int64_t> uniformValue(Value tensor, bool is_signed, ConstantEvaluator& constants) {
  int64_t budget = 1 << 20;
  const auto known = constants.evaluate(tensor, budget);
  if (!known || known->elements() == 0 || known->width != 1) return std::nullopt;
  for (int64_t i = 1; i < known->elements(); ++i)
    if (known->data[i] != known->data[0]) return std::nullopt;
  return is_signed ? static_cast<int64_t>(static_cast<int8_t>(known->data[0]))
                   : static_cast<int64_t>(static_cast<uint8_t>(known->data[0]));
}

/// scale * real(value); the scale is an argument of the body or a constant.
struct Scaled {
  Value value;
  mlir::BlockArgument argument;  ///< or null
  float constant = 1;
};

std::optional<Scaled> scaledValue(Value yielded) {
  auto product = yielded.getDefiningOp<arith::MulFOp>();
  if (!product || !yielded.getType().isF32()) return std::nullopt;
  // The factors come in either order.
  for (auto [integer, scale] : {std::pair(product.getLhs(), product.getRhs()), {product.getRhs(), product.getLhs()}}) {
    auto real = integer.getDefiningOp<arith::SIToFPOp>();
    if (!real) continue;
    llvm::APFloat constant(0.0);
    if (mlir::matchPattern(scale, mlir::m_ConstantFloat(&constant)))
      return Scaled{real.getIn(), {}, constant.convertToFloat()};
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(scale)) return Scaled{real.getIn(), argument};
  }
  return std::nullopt;
}

/// Matches an operation that only extends elements, subtracts the zero point and scales.
std::optional<ShiftedOperand> shift(GenericOp op, ConstantEvaluator& constants) {
  if (kindOf(op) != OpKind::kElementwise || op->getNumResults() != 1 || op.getNumDpsInputs() > 3) return std::nullopt;
  Value yielded = op.getBody()->getTerminator()->getOperand(0);
  const auto maps = op.getIndexingMapsArray();
  ShiftedOperand shifted;
  if (const auto scaled = scaledValue(yielded)) {
    yielded = scaled->value;
    shifted.scale.emplace().constant = scaled->constant;
    if (const mlir::BlockArgument argument = scaled->argument) {
      if (argument.getOwner() != op.getBody() || argument.getArgNumber() >= op.getNumDpsInputs()) return std::nullopt;
      shifted.scale->tensor = op.getDpsInputs()[argument.getArgNumber()];
      shifted.scale->map = maps[argument.getArgNumber()];
    }
  }
  // An element may have no zero point, one by subtraction, or a negative one by addition.
  Value element = yielded;
  std::optional<Extended> zero;
  if (auto less = yielded.getDefiningOp<arith::SubIOp>()) {
    element = less.getLhs();
    zero = extendedOf(less.getRhs());
    mlir::APInt constant;
    if (!zero && !mlir::matchPattern(less.getRhs(), mlir::m_ConstantInt(&constant))) return std::nullopt;
    if (!zero) shifted.zero.constant = constant.getSExtValue();
  } else if (auto more = yielded.getDefiningOp<arith::AddIOp>()) {
    mlir::APInt constant;
    if (!mlir::matchPattern(more.getRhs(), mlir::m_ConstantInt(&constant))) return std::nullopt;
    element = more.getLhs();
    shifted.zero.constant = -constant.getSExtValue();
  }
  const auto source = extendedOf(element);
  auto isInput = [&](const Extended& each) {
    return each.argument.getOwner() == op.getBody() && each.argument.getArgNumber() < op.getNumDpsInputs();
  };
  // Element and zero point must be different inputs.
  if (!source || !isInput(*source) || (zero && (!isInput(*zero) || zero->argument == source->argument)))
    return std::nullopt;
  // A broadcast or transposed element is not this tensor.
  if (!maps[source->argument.getArgNumber()].isIdentity()) return std::nullopt;
  // Floats do not wrap, so the difference must be one of 8-bit values.
  if (shifted.scale) {
    const int64_t low = source->is_signed ? -128 : 0, high = source->is_signed ? 127 : 255;
    if (shifted.zero.constant < low || shifted.zero.constant > high) return std::nullopt;
    if (zero && zero->is_signed != source->is_signed) return std::nullopt;
  }
  shifted.elements = op.getDpsInputs()[source->argument.getArgNumber()];
  shifted.is_signed = source->is_signed;
  if (!zero) return shifted;
  const Value tensor = op.getDpsInputs()[zero->argument.getArgNumber()];
  // A zero point that is the same for all elements is a number.
  if (const auto uniform = uniformValue(tensor, zero->is_signed, constants)) {
    shifted.zero.constant = *uniform;
    return shifted;
  }
  shifted.zero.tensor = tensor;
  shifted.zero.is_signed = zero->is_signed;
  shifted.zero.map = maps[zero->argument.getArgNumber()];
  return shifted;
}

/// Adds or subtracts a run-time zero point from each element, modulo 256.
template <typename Op>
Value moveByZero(mlir::OpBuilder& b, mlir::Location loc, Value elements, Value zero) {
  const auto type = mlir::cast<RankedTensorType>(elements.getType());
  const AffineMap each = b.getMultiDimIdentityMap(type.getRank()),
                  one = AffineMap::get(type.getRank(), 0, b.getContext());
  Value empty = mlir::tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType());
  return GenericOp::create(
             b, loc, mlir::TypeRange{type}, mlir::ValueRange{elements, zero}, mlir::ValueRange{empty},
             {each, one, each},
             llvm::SmallVector<mlir::utils::IteratorType>(type.getRank(), mlir::utils::IteratorType::parallel),
             [](mlir::OpBuilder& inner, mlir::Location at, mlir::ValueRange v) {
               mlir::linalg::YieldOp::create(inner, at, Op::create(inner, at, v[0], v[1]).getResult());
             })
      .getResult(0);
}

/// Pads elements with their zero point. A run-time zero point is subtracted before a zero padding and added after it:
/// modulo 256 this changes no element, and the padding becomes the zero point.
Value padElements(mlir::OpBuilder& b, mlir::tensor::PadOp pad, const ShiftedOperand& inner) {
  const Value with = pad.getConstantPaddingValue();
  if (!with || (inner.zero.tensor && (inner.zero.constant != 0 || inner.zero.is_signed != inner.is_signed))) return {};
  if (!mlir::matchPattern(with, mlir::m_Zero()) && !mlir::matchPattern(with, mlir::m_AnyZeroFloat())) return {};
  const int64_t low = inner.is_signed ? -128 : 0, high = inner.is_signed ? 127 : 255;
  // The padding must be a value of 8 bits.
  if (inner.zero.constant < low || inner.zero.constant > high) return {};
  auto type = mlir::cast<RankedTensorType>(pad.getResult().getType()).clone(b.getI8Type());
  Value zero = arith::ConstantOp::create(
      b, pad.getLoc(),
      b.getIntegerAttr(b.getI8Type(), llvm::APInt(8, static_cast<uint64_t>(inner.zero.constant) & 0xff)));
  Value elements = inner.elements;
  if (inner.zero.tensor) elements = moveByZero<arith::SubIOp>(b, pad.getLoc(), elements, inner.zero.tensor);
  Value padded =
      mlir::tensor::PadOp::create(b, pad.getLoc(), type, elements, pad.getMixedLowPad(), pad.getMixedHighPad(), zero);
  return inner.zero.tensor ? moveByZero<arith::AddIOp>(b, pad.getLoc(), padded, inner.zero.tensor) : padded;
}

std::optional<ShiftedOperand> follow(mlir::OpBuilder& b, Value value, ConstantEvaluator& constants, int depth) {
  mlir::Operation* op = value.getDefiningOp();
  if (!op || depth == kLongestWay) return std::nullopt;
  if (auto generic = mlir::dyn_cast<GenericOp>(op)) {
    const auto permutation = permutationOf(op);
    // A transpose moves elements, zero points and scales alike.
    if (permutation.empty()) return shift(generic, constants);
    auto inner = follow(b, op->getOperand(0), constants, depth + 1);
    if (!inner) return std::nullopt;
    inner->elements = transpose(b, op->getLoc(), inner->elements, permutation);
    // Dimension d of the operand is at the position where the permutation names it.
    llvm::SmallVector<mlir::AffineExpr> places(permutation.size());
    for (auto [place, source] : llvm::enumerate(permutation)) places[source] = b.getAffineDimExpr(place);
    auto move = [&](AffineMap& map) { map = map.replaceDimsAndSymbols(places, {}, permutation.size(), 0); };
    if (inner->zero.tensor) move(inner->zero.map);
    if (inner->scale && inner->scale->tensor) move(inner->scale->map);
    return inner;
  }
  if (!mlir::isa<mlir::tensor::PadOp, mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp,
                 mlir::tensor::ExtractSliceOp>(op))
    return std::nullopt;
  auto inner = follow(b, op->getOperand(0), constants, depth + 1);
  // Zero points and scales along a dimension would have to follow the reshape.
  if (!inner || (inner->zero.tensor && inner->zero.map.getNumResults() > 0) ||
      (inner->scale && inner->scale->tensor && inner->scale->map.getNumResults() > 0))
    return std::nullopt;
  const auto type = mlir::cast<RankedTensorType>(value.getType());
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op)) {
    inner->elements = padElements(b, pad, *inner);
    if (!inner->elements) return std::nullopt;
  } else {
    mlir::IRMapping narrow;
    narrow.map(op->getOperand(0), inner->elements);
    mlir::Operation* moved = b.clone(*op, narrow);
    moved->getResult(0).setType(RankedTensorType::get(type.getShape(), b.getI8Type()));
    inner->elements = moved->getResult(0);
  }
  const AffineMap one = AffineMap::get(type.getRank(), 0, b.getContext());
  if (inner->zero.tensor) inner->zero.map = one;
  if (inner->scale && inner->scale->tensor) inner->scale->map = one;
  return inner;
}

}  // namespace

std::optional<ShiftedOperand> shiftedOperand(mlir::OpBuilder& b, Value value, ConstantEvaluator& constants) {
  return follow(b, value, constants, 0);
}

}  // namespace tessera::compiler
