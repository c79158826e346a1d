#include "compiler/graph/slices/softmax_of_groups.h"

#include "compiler/graph/facts/bytes_behind.h"
#include "compiler/graph/facts/op_kind.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;
using mlir::linalg::LinalgOp;

/// What the body yields, where that is an `Op`.
template <typename Op>
Op yieldedBy(LinalgOp op) {
  return op.getBlock()->getTerminator()->getOperand(0).getDefiningOp<Op>();
}

/// The operation with `inputs` operands and one result that makes `value`.
LinalgOp madeBy(Value value, int64_t inputs) {
  auto op = value.getDefiningOp<LinalgOp>();
  return op && op.getNumDpsInputs() == inputs && op.getNumDpsInits() == 1 ? op : nullptr;
}

/// What an operand is another shape of.
Value operand(LinalgOp op, int64_t number) { return rootOf(op.getDpsInputOperand(number)->get()); }

/// Whether the two are arguments 0 and 1 of the body.
bool inOrder(LinalgOp op, Value first, Value second) {
  return first == op.getBlock()->getArgument(0) && second == op.getBlock()->getArgument(1);
}

bool readOnlyBy(Value value, llvm::ArrayRef<mlir::Operation*> readers) {
  return llvm::all_of(value.getUsers(), [&](mlir::Operation* user) {
    return kindOf(user) == OpKind::kView ? readOnlyBy(user->getResult(0), readers) : llvm::is_contained(readers, user);
  });
}

/// Whether `op` reduces its one operand along one loop by one of `Ops`.
template <typename... Ops>
bool reducesBy(LinalgOp op) {
  if (!op || op.getNumReductionLoops() != 1) return false;
  mlir::Operation* combiner = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  if (!combiner || !mlir::isa<Ops...>(combiner) || combiner->getNumOperands() != 2) return false;
  return llvm::is_contained(combiner->getOperands(), Value(op.getBlock()->getArgument(0))) &&
         llvm::is_contained(combiner->getOperands(), Value(op.getBlock()->getArgument(1)));
}

}  // namespace

int softmaxLoop(const AccessTrace& trace, LinalgOp product) {
  if (product.getNumDpsInputs() != 2 || product.getNumReductionLoops() != 1) return -1;
  LinalgOp quotient = madeBy(operand(product, 0), 2);
  auto divided = quotient && quotient.getNumReductionLoops() == 0 ? yieldedBy<arith::DivFOp>(quotient) : nullptr;
  if (!divided || !inOrder(quotient, divided.getLhs(), divided.getRhs())) return -1;
  LinalgOp powers = madeBy(operand(quotient, 0), 2), sum = madeBy(operand(quotient, 1), 1);
  auto power = powers && powers.getNumReductionLoops() == 0 ? yieldedBy<mlir::math::ExpOp>(powers) : nullptr;
  auto difference = power ? power.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
  if (!difference || !inOrder(powers, difference.getLhs(), difference.getRhs())) return -1;
  LinalgOp maximum = madeBy(operand(powers, 1), 1);
  if (!reducesBy<arith::AddFOp>(sum) || !reducesBy<arith::MaximumFOp, arith::MaxNumFOp>(maximum)) return -1;
  const Value power_value = powers->getResult(0);
  if (operand(sum, 0) != power_value || operand(maximum, 0) != operand(powers, 0) ||
      maximum.getIndexingMapsArray() != sum.getIndexingMapsArray() || !readOnlyBy(quotient->getResult(0), {product}) ||
      !readOnlyBy(sum->getResult(0), {quotient}) || !readOnlyBy(maximum->getResult(0), {powers}) ||
      !readOnlyBy(power_value, {quotient, sum}))
    return -1;
  for (auto [iterator, subscript] : llvm::zip_equal(product.getIteratorTypesArray(), trace.iterations(product))) {
    if (iterator != mlir::utils::IteratorType::reduction) continue;
    if (subscript.size() == 1 && subscript[0].stride == 1) return subscript[0].loop;
  }
  return -1;
}

}  // namespace tessera::compiler
