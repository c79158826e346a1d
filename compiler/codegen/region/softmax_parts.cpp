#include "compiler/codegen/region/softmax_parts.h"

#include "compiler/codegen/tiling/reduction.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// Where a reduction over one loop of one operand combines with `kind`.
bool isRowReduction(const Nest& nest, llvm::ArrayRef<mlir::vector::CombiningKind> kinds) {
  if (!isSimple(nest, 1) || llvm::count(nest.reduction, true) != 1) return false;
  const Statement& main = nest.statements[0];
  auto combiner = combinerOf(main, 0);
  if (!combiner || !llvm::is_contained(kinds, combiner->kind) || !main.init[0]) return false;
  return llvm::any_of(combiner->op->getOperands(), [&](Value operand) { return isArgument(main, operand, 0); });
}

bool isPowers(const Nest& nest) {
  if (nest.hasReduction() || !isSimple(nest, 2)) return false;
  const Statement& main = nest.statements[0];
  auto power = yieldedBy<mlir::math::ExpOp>(main);
  auto difference = power ? power.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
  return difference && isArgument(main, difference.getLhs(), 0) && isArgument(main, difference.getRhs(), 1);
}

}  // namespace

bool reads(const Nest& nest, Value root) {
  return llvm::any_of(nest.statements, [&](const Statement& statement) {
    return llvm::any_of(statement.inputs,
                        [&](const Operand& input) { return input.access.root == root && !input.from; });
  });
}

bool writes(const Nest& nest, Value root) {
  return llvm::any_of(nest.statements, [&](const Statement& statement) {
    return llvm::any_of(statement.outputs, [&](const Operand& output) { return output.access.root == root; });
  });
}

bool isArgument(const Statement& statement, Value value, unsigned number) {
  return value == statement.body()->getArgument(number);
}

bool isSimple(const Nest& nest, size_t inputs) {
  const Statement& main = nest.statements[0];
  return nest.statements.size() == 1 && main.outputs.size() == 1 && main.inputs.size() == inputs &&
         llvm::all_of(main.inputs, [](const Operand& input) { return input.access.root != nullptr; });
}

bool sameWalk(const Access& a, const Access& b) { return a.offset == b.offset && a.strides == b.strides; }

std::optional<SoftmaxParts> findSoftmax(const SlicedNests& nests) {
  using mlir::vector::CombiningKind;
  SoftmaxParts parts;
  bool found = false;
  for (size_t n = 0; n < nests.nests.size(); ++n)
    if (isContraction(nests.nests[n])) {
      parts.product = n;
      found = true;
    }
  if (!found) return std::nullopt;
  const Nest& product = nests.nests[parts.product];
  if (product.statements.size() < 2 || llvm::count(product.reduction, true) != 1) return std::nullopt;
  auto quotient = yieldedBy<arith::DivFOp>(product.statements[1]);
  const Operand& divided = product.statements[1].inputs[0];
  if (!quotient || !divided.from || product.statements[1].inputs.size() != 2) return std::nullopt;
  const Value sum = product.statements[1].inputs[1].access.root;
  // From the sum backwards.
  auto writerOf = [&](Value root, size_t before) -> std::optional<size_t> {
    for (size_t n = before; n-- > 0;)
      if (writes(nests.nests[n], root)) return n;
    return std::nullopt;
  };
  auto at = writerOf(sum, parts.product);
  if (!at || !isRowReduction(nests.nests[*at], {CombiningKind::ADD})) return std::nullopt;
  parts.sum = *at;
  const Access& summed = nests.nests[parts.sum].statements[0].inputs[0].access;
  at = writerOf(summed.root, parts.sum);
  if (!at || !isPowers(nests.nests[*at])) return std::nullopt;
  parts.powers = *at;
  const Statement& powers = nests.nests[parts.powers].statements[0];
  at = writerOf(powers.inputs[1].access.root, parts.powers);
  if (!at || !isRowReduction(nests.nests[*at], {CombiningKind::MAXIMUMF, CombiningKind::MAXNUMF})) return std::nullopt;
  parts.maximum = *at;
  const Nest &maximum = nests.nests[parts.maximum], &total = nests.nests[parts.sum];
  // One shape, one layout: loops and strides can be used for each other.
  if (maximum.statements[0].inputs[0].access.root != powers.inputs[0].access.root || maximum.extents != total.extents ||
      maximum.reduction != total.reduction ||
      !sameWalk(maximum.statements[0].outputs[0].access, total.statements[0].outputs[0].access) ||
      !mlir::matchPattern(total.statements[0].init[0], mlir::m_AnyZeroFloat()))
    return std::nullopt;
  for (int loop = 0; loop < product.loops(); ++loop)
    if (product.reduction[loop]) parts.key = loop;
  // The product walks the powers along its reduction.
  const bool along = llvm::any_of(product.statements[0].inputs, [&](const Operand& input) {
    return input.access.root == summed.root && input.access.strides[parts.key] != 0;
  });
  return along ? std::optional(parts) : std::nullopt;
}

}  // namespace tessera::compiler::codegen
