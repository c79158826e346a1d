#include "compiler/backends/cpu/region/counted_keys.h"

#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/ir/mask_bounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;

/// Accesses of a nest to the scores or powers.
llvm::SmallVector<const Access*> accessesOf(const Nest& nest, const SoftmaxScores& softmax) {
  llvm::SmallVector<const Access*> accesses;
  const auto add = [&](const Access& access) {
    if (access.root == softmax.scores || access.root == softmax.powers) accesses.push_back(&access);
  };
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      if (accessesInputMemory(input)) add(input.access);
    for (auto [o, output] : llvm::enumerate(statement.outputs))
      if (accessesOutputMemory(statement, o)) add(output.access);
  }
  return accesses;
}

/// The loop that walks the keys in all of these accesses; -1: they differ, or another result is indexed by keys as
/// well.
int keyLoop(const Nest& nest, const TilePlan& plan, const SoftmaxScores& softmax) {
  const llvm::SmallVector<const Access*> accesses = accessesOf(nest, softmax);
  int key = -1;
  for (const Access* access : accesses) {
    int own = -1;
    for (int loop = 0; loop < nest.loops(); ++loop)
      if (access->strides[loop] == 1 && nest.extents[loop] > 1) own = loop;
    if (own < 0 || (key >= 0 && own != key)) return -1;
    key = own;
  }
  if (plan.block[key] > 0 || plan.transposed >= 0) return -1;
  for (const Statement& statement : nest.statements)
    for (auto [o, output] : llvm::enumerate(statement.outputs))
      // Keys beyond the counted ones are not computed, so a result that later steps read for every key must not
      // depend on them.
      if (accessesOutputMemory(statement, o) && output.access.between(key) != 0 &&
          !llvm::is_contained(accesses, &output.access))
        return -1;
  return key;
}

/// The memory operand that a condition reads, directly or truncated to its last bit.
const Access* conditionOf(const Nest& nest, const Statement& statement, mlir::Value condition) {
  if (auto cut = condition.getDefiningOp<arith::TruncIOp>()) condition = cut.getIn();
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(condition);
  if (!argument || argument.getOwner() != statement.body() || argument.getArgNumber() >= statement.inputs.size())
    return nullptr;
  const Operand& input = statement.inputs[argument.getArgNumber()];
  if (input.from) {
    const Statement& before = nest.statements[input.from->statement];
    return conditionOf(nest, before, before.body()->getTerminator()->getOperand(input.from->output));
  }
  return input.access.root && input.access.panel.empty() && input.access.element.isInteger() ? &input.access : nullptr;
}

/// The conditions by which `nest` keeps scores; null if it writes none, or uses other conditions as well.
const Access* conditionsOf(const Nest& nest, const SoftmaxScores& softmax, int key) {
  for (const Statement& statement : nest.statements)
    for (auto [o, output] : llvm::enumerate(statement.outputs)) {
      if (output.access.root != softmax.scores || !accessesOutputMemory(statement, o)) continue;
      auto select = statement.body()->getTerminator()->getOperand(o).getDefiningOp<arith::SelectOp>();
      if (!select || !mlir::matchPattern(select.getFalseValue(), mlir::m_NegInfFloat())) return nullptr;
      const Access* access = conditionOf(nest, statement, select.getCondition());
      if (!access || access->strides[key] == 0) return nullptr;
      for (int loop = 0; loop < nest.loops(); ++loop)
        // One count holds for the whole slice, so the conditions must not depend on the row.
        if (loop != key && access->strides[loop] != 0) return nullptr;
      return access;
    }
  return nullptr;
}

}  // namespace

std::optional<DynamicKeyRange> findDynamicKeyRange(const RegionVariant& variant, const SoftmaxScores& softmax) {
  DynamicKeyRange counted;
  bool found = false;
  int64_t writers = 0;
  for (auto [s, step] : llvm::enumerate(variant.steps)) {
    if (accessesOf(step.nest, softmax).empty()) continue;
    // From here on the step handles scores, so it must walk the same keys as the others.
    const int key = keyLoop(step.nest, step.plan, softmax);
    if (key < 0 || step.last) return std::nullopt;
    const int64_t keys = step.nest.extents[key];
    if (!found) counted = {.first = s, .end = s, .loops = {}, .keys = keys, .conditions = {}};
    if (keys != counted.keys) return std::nullopt;
    counted.loops.resize(s - counted.first, -1);
    counted.loops.push_back(key);
    counted.end = s + 1;
    if (const Access* conditions = conditionsOf(step.nest, softmax, key)) {
      counted.conditions = *conditions;
      counted.stride = conditions->strides[key];
      ++writers;
    } else if (!found) {
      return std::nullopt;  // scores are masked where they are first written
    }
    found = true;
  }
  if (writers != 1) return std::nullopt;
  // The steps of a strip stay together.
  for (const Strip& strip : variant.strips) {
    if (strip.end <= counted.first || strip.first >= counted.end) continue;
    if (strip.first < counted.first || strip.end > counted.end) return std::nullopt;
  }
  counted.keys_per_group = keysPerGroup(counted.keys, kMaxKeyGroups);
  return counted.keys_per_group > 0 && counted.keys_per_group < counted.keys ? std::optional(std::move(counted))
                                                                             : std::nullopt;
}

Nest withKeyCount(const RegionVariant& variant, size_t step, int64_t keys) {
  Nest nest = variant.steps[step].nest;
  const int loop = variant.counted->loops[step - variant.counted->first];
  if (loop >= 0) nest.extents[loop] = std::min(nest.extents[loop], keys);
  return nest;
}

}  // namespace tessera::compiler::codegen
