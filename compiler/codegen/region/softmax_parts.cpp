#include "compiler/codegen/region/softmax_parts.h"

#include "compiler/codegen/tiling/tile_plan.h"
#include "compiler/ir/softmax_bodies.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

using mlir::Value;

/// One operand, reduced over one loop by such a body.
bool isRowReduction(const Nest& nest, bool (*by)(mlir::Block&)) {
  return isSimple(nest, 1) && llvm::count(nest.reduction, true) == 1 && nest.statements[0].init[0] &&
         by(*nest.statements[0].body());
}

bool isPowers(const Nest& nest) {
  return !nest.hasReduction() && isSimple(nest, 2) && isPowerBody(*nest.statements[0].body());
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

bool isSimple(const Nest& nest, size_t inputs) {
  const Statement& main = nest.statements[0];
  return nest.statements.size() == 1 && main.outputs.size() == 1 && main.inputs.size() == inputs &&
         llvm::all_of(main.inputs, [](const Operand& input) { return input.access.root != nullptr; });
}

bool sameWalk(const Access& a, const Access& b) { return a.offset == b.offset && a.strides == b.strides; }

std::optional<SoftmaxParts> findSoftmax(const SlicedNests& nests) {
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
  const Statement& division = product.statements[1];
  if (division.inputs.size() != 2 || !division.inputs[0].from || !isQuotientBody(*division.body())) return std::nullopt;
  const Value sum = division.inputs[1].access.root;
  // From the sum backwards.
  auto writerOf = [&](Value root, size_t before) -> std::optional<size_t> {
    for (size_t n = before; n-- > 0;)
      if (writes(nests.nests[n], root)) return n;
    return std::nullopt;
  };
  auto at = writerOf(sum, parts.product);
  if (!at || !isRowReduction(nests.nests[*at], isSumBody)) return std::nullopt;
  parts.sum = *at;
  const Access& summed = nests.nests[parts.sum].statements[0].inputs[0].access;
  at = writerOf(summed.root, parts.sum);
  if (!at || !isPowers(nests.nests[*at])) return std::nullopt;
  parts.powers = *at;
  const Statement& powers = nests.nests[parts.powers].statements[0];
  at = writerOf(powers.inputs[1].access.root, parts.powers);
  if (!at || !isRowReduction(nests.nests[*at], isMaximumBody)) return std::nullopt;
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
