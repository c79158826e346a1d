#include "compiler/graph/layout/widen_products.h"

#include "compiler/graph/analysis/each_element.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/layout/interleave_products.h"
#include "compiler/graph/layout/layout_cost.h"
#include "compiler/graph/layout/narrow_pairs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Time relative to multiply-adds: kTakenApart with byte vectors unpacked in registers before each of two vpmaddwd,
/// kWide with 16-bit vectors (two vpmaddwd and two additions instead of four multiply-adds).
constexpr double kTakenApart = 0.75, kWide = 0.57;

/// 8-bit and 16-bit elements per 32-bit sum.
constexpr int64_t kGroup = 4, kPair = 2;

/// Whether the chip adds products of 16-bit integers but not of 8-bit ones.
bool multipliesSixteenBits(const Chip& chip) {
  bool any = false;
  for (const DotProduct& each : chip.dotProducts()) {
    if (each.floating) continue;
    if (each.bits != 16 || !each.first_signed || !each.second_signed) return false;
    any = true;
  }
  return any;
}

Value widenedElement(OpBuilder& b, mlir::Location loc, Value element, const NarrowInput& input) {
  if (input.flipped) element = flipSignBit(b, loc, element);
  if (input.is_signed) return arith::ExtSIOp::create(b, loc, b.getI16Type(), element);
  return arith::ExtUIOp::create(b, loc, b.getI16Type(), element);
}

/// Widens `tensor` to 16 bits. Paddings and views are repeated after the conversion, which can then fuse with the
/// producer.
Value widenedTensor(OpBuilder& b, mlir::Location loc, Value tensor, const NarrowInput& input) {
  auto type = mlir::cast<RankedTensorType>(tensor.getType()).clone(b.getI16Type());
  if (auto pad = tensor.getDefiningOp<mlir::tensor::PadOp>()) {
    if (Value filler = pad.getConstantPaddingValue()) {
      Value source = widenedTensor(b, loc, pad.getSource(), input);
      return mlir::tensor::PadOp::create(b, loc, type, source, pad.getMixedLowPad(), pad.getMixedHighPad(),
                                         widenedElement(b, loc, filler, input));
    }
  }
  if (auto view = tensor.getDefiningOp<mlir::tensor::ExpandShapeOp>())
    return mlir::tensor::ExpandShapeOp::create(b, loc, type, widenedTensor(b, loc, view.getSrc(), input),
                                               view.getReassociationIndices());
  if (auto view = tensor.getDefiningOp<mlir::tensor::CollapseShapeOp>())
    return mlir::tensor::CollapseShapeOp::create(b, loc, type, widenedTensor(b, loc, view.getSrc(), input),
                                                 view.getReassociationIndices());
  return mapElements(b, loc, tensor, b.getI16Type(), [&](OpBuilder& inner, mlir::Location at, Value element) {
    return widenedElement(inner, at, element, input);
  });
}

/// Whether the faster multiplication outweighs reading twice the weight bytes and a pass over the activation.
bool pays(GenericOp op, unsigned weights, const Chip& chip) {
  const LayoutCost prices(chip);
  const double saved = (kTakenApart - kWide) * static_cast<double>(flopsOf(op)) / chip.operationsPerSecond() * 1e6;
  auto elementsOf = [&](unsigned input) {
    return mlir::cast<RankedTensorType>(op.getDpsInputs()[input].getType()).getNumElements();
  };
  return saved >
         prices.pass(elementsOf(weights) / 2, /*turns=*/false) + prices.pass(elementsOf(1 - weights), /*turns=*/false);
}

void widen(GenericOp op) {
  OpBuilder b(op);
  const mlir::Location loc = op.getLoc();
  const auto [x, w] = *narrowProduct(op);
  Value wide[] = {widenedTensor(b, loc, op.getDpsInputs()[0], x), widenedTensor(b, loc, op.getDpsInputs()[1], w)};
  auto product = GenericOp::create(
      b, loc, op->getResultTypes(), wide, op.getDpsInits(), op.getIndexingMapsArray(), op.getIteratorTypesArray(),
      [](OpBuilder& inner, mlir::Location at, mlir::ValueRange v) {
        Value factors[2];
        for (int i : {0, 1}) factors[i] = arith::ExtSIOp::create(inner, at, inner.getI32Type(), v[i]);
        Value term = arith::MulIOp::create(inner, at, factors[0], factors[1]);
        mlir::linalg::YieldOp::create(inner, at, arith::AddIOp::create(inner, at, v[2], term).getResult());
      });
  op.getResult(0).replaceAllUsesWith(product.getResult(0));
  op.erase();
}

}  // namespace

int widenProducts(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights) {
  if (!multipliesSixteenBits(chip)) return 0;
  ConstantEvaluator constants = knownWeights(main, weights);
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    if (!narrowProduct(op)) continue;
    for (const unsigned input : {1U, 0U}) {
      if (!isKnownAtCompileTime(op.getDpsInputs()[input])) continue;
      const auto along = interleavedDimension(op, input, kPair);
      if (!along || !pays(op, input, chip)) break;
      const bool narrow = chip.multipliesPairs() && interleavedDimension(op, input, kGroup) == along &&
                          hasNarrowPairs(op, *along, constants);
      if (narrow) break;
      widen(op);
      ++count;
      break;
    }
  }
  return count;
}

}  // namespace tessera::compiler
