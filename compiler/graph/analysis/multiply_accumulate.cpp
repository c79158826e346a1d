#include "compiler/graph/analysis/multiply_accumulate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Returns the two factors if the body adds products of two values.
std::optional<std::pair<Value, Value>> factorsOf(GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1) return std::nullopt;
  mlir::Block* body = op.getBody();
  const Value out = body->getArgument(2);
  mlir::Operation* sum = body->getTerminator()->getOperand(0).getDefiningOp();
  if (!sum || !mlir::isa<arith::AddFOp, arith::AddIOp>(sum) || !out.hasOneUse() || *out.user_begin() != sum)
    return std::nullopt;
  mlir::Operation* product = sum->getOperand(sum->getOperand(0) == out ? 1 : 0).getDefiningOp();
  if (!product || product->getNumOperands() != 2 ||
      !(mlir::isa<arith::AddFOp>(sum) ? mlir::isa<arith::MulFOp>(product) : mlir::isa<arith::MulIOp>(product)))
    return std::nullopt;
  return std::pair(product->getOperand(0), product->getOperand(1));
}

/// Returns the body's argument that `value` widens; sets `flipped` if its sign bit is flipped first.
mlir::BlockArgument widenedArgument(Value value, bool* flipped) {
  *flipped = false;
  mlir::Operation* op = value.getDefiningOp();
  // Narrow factors are widened before they are multiplied.
  if (op && mlir::isa<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(op)) value = op->getOperand(0);
  if (auto flip = value.getDefiningOp<arith::XOrIOp>()) {
    mlir::APInt bits;
    if (!mlir::matchPattern(flip.getRhs(), mlir::m_ConstantInt(&bits)) || !bits.isSignMask()) return {};
    *flipped = true;
    value = flip.getLhs();
  }
  return mlir::dyn_cast<mlir::BlockArgument>(value);
}

bool inputsOf(const std::pair<Value, Value>& factors, mlir::Block* body) {
  bool flipped = false;
  auto a = widenedArgument(factors.first, &flipped), b = widenedArgument(factors.second, &flipped);
  return a && b && a.getOwner() == body && b.getOwner() == body && a != b && a.getArgNumber() < 2 &&
         b.getArgNumber() < 2;
}

}  // namespace

bool isMultiplyAccumulate(GenericOp op) {
  const auto factors = factorsOf(op);
  // Product, sum and yield: nothing else happens in the body.
  if (!factors || op.getBody()->getOperations().size() != 3) return false;
  const Value a = op.getBody()->getArgument(0), b = op.getBody()->getArgument(1);
  return (factors->first == a && factors->second == b) || (factors->first == b && factors->second == a);
}

bool isProduct(GenericOp op) {
  const auto factors = factorsOf(op);
  return factors && inputsOf(*factors, op.getBody());
}

bool flipsSignBit(GenericOp op, unsigned input) {
  const auto factors = factorsOf(op);
  if (!factors) return false;
  for (Value factor : {factors->first, factors->second}) {
    bool flipped = false;
    const auto argument = widenedArgument(factor, &flipped);
    if (argument && argument.getOwner() == op.getBody() && argument.getArgNumber() == input) return flipped;
  }
  return false;
}

bool isBf16Product(GenericOp op) {
  const auto factors = factorsOf(op);
  if (!factors || !inputsOf(*factors, op.getBody()) || !factors->first.getType().isF32()) return false;
  return llvm::all_of(op.getBody()->getArguments().take_front(2),
                      [](mlir::BlockArgument input) { return input.getType().isBF16(); });
}

std::optional<std::pair<NarrowInput, NarrowInput>> narrowProduct(GenericOp op) {
  const auto factors = factorsOf(op);
  if (!factors || !inputsOf(*factors, op.getBody()) || !factors->first.getType().isInteger(32)) return std::nullopt;
  NarrowInput inputs[2];
  for (Value factor : {factors->first, factors->second}) {
    // Records for each input whether it has a sign, and whether its sign bit is flipped.
    bool flipped = false;
    const auto argument = widenedArgument(factor, &flipped);
    if (!argument.getType().isInteger(8)) return std::nullopt;
    inputs[argument.getArgNumber()] = {factor.getDefiningOp<arith::ExtSIOp>() != nullptr, flipped};
  }
  return std::pair(inputs[0], inputs[1]);
}

bool isWidenedProduct(GenericOp op) {
  const auto factors = factorsOf(op);
  return factors && inputsOf(*factors, op.getBody()) && factors->first.getType().isInteger(32) &&
         llvm::all_of(op.getBody()->getArguments().take_front(2),
                      [](mlir::BlockArgument input) { return input.getType().isInteger(16); });
}

bool usesDotProductInstruction(GenericOp op) {
  if (narrowProduct(op) || isWidenedProduct(op)) return true;
  if (!isBf16Product(op)) return false;
  // The instruction multiplies pairs, so both inputs must have them in their last dimension.
  std::optional<unsigned> within;
  const llvm::SmallVector<mlir::AffineMap> maps = op.getIndexingMapsArray();
  for (mlir::AffineMap map : {maps[0], maps[1]}) {
    if (map.getNumResults() == 0) return false;
    auto last = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResults().back());
    if (!last || (within && *within != last.getPosition())) return false;
    within = last.getPosition();
  }
  return op.getStaticLoopRanges()[*within] == 2 &&
         op.getIteratorTypesArray()[*within] == mlir::utils::IteratorType::reduction;
}

}  // namespace tessera::compiler
