#include "compiler/codegen/tree/variants.h"

#include "compiler/codegen/emit/body.h"
#include "compiler/codegen/emit/reduction.h"
#include "compiler/codegen/emit/separable.h"
#include "compiler/codegen/tiling/contraction_plan.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/schedule/words.h"

namespace tessera::compiler::codegen {
namespace {

bool multipliesAlongVectors(const Nest& nest, const TilePlan& plan) {
  return isContraction(nest) && llvm::all_of(nest.statements[0].inputs, [&](const Operand& input) {
           return !input.from && varies(input, plan.vector_loop);
         });
}

/// Squares of operands are turned: some operand lies along the turned loop and across the vectors.
bool turnsSomething(const Nest& nest, const TilePlan& plan) {
  if (plan.lanes > 16) return false;
  for (const Statement& statement : nest.statements)
    for (const Operand& input : statement.inputs) {
      if (!input.access.root || input.from) continue;
      const int64_t across = input.access.strides[plan.vector_loop];
      if (across != 0 && across != 1 && input.access.strides[plan.transposed] == 1 &&
          !input.access.element.isInteger(1) && !input.access.element.isIndex())
        return true;
    }
  return false;
}

std::string refusedTurn(const Nest& nest, const TilePlan& plan) {
  if (plan.transposed == plan.vector_loop || nest.reduction[plan.transposed])
    return "the turned loop is the vector loop, or sums";
  if (!turnsSomething(nest, plan)) return "no operand lies along the turned loop and across the vectors";
  if (plan.tile[plan.transposed] > plan.lanes) return "a square that is turned has as many rows as a vector has lanes";
  return "";
}

std::string refusedTransform(const Nest& nest, const TilePlan& plan) {
  const auto transform = separableTransform(nest);
  if (!transform) return "the nest is no product with two small constant matrices";
  const int v = plan.vector_loop;
  if (nest.statements[0].inputs[transform->source].access.strides[v] != 1 ||
      nest.statements[0].outputs[0].access.strides[v] != 1)
    return "source and result are not contiguous along the vector loop";
  if (plan.tile[v] > plan.lanes) return "the tile has more than one vector";
  for (int loop = 0; loop < nest.loops(); ++loop) {
    const bool side = loop == transform->left.parallel || loop == transform->right.parallel ||
                      loop == transform->left.reduction || loop == transform->right.reduction;
    if (loop != v && plan.tile[loop] != (side ? nest.extents[loop] : 1)) return "the tile is not one whole block";
  }
  return "";
}

}  // namespace

int64_t pointsAlong(const TilePlan& plan, int loop) {
  return loop == plan.vector_loop ? ceilDiv(plan.tile[loop], plan.lanes) : plan.tile[loop];
}

std::string_view variantOf(const Nest& nest, const TilePlan& plan) {
  if (plan.lanes == 1) return words::kScalar;
  if (plan.strategy == kTransformStrategy) return words::kTransform;
  if (!nest.hasReduction()) return plan.transposed >= 0 ? words::kTurned : words::kElementwise;
  if (plan.horizontal) return multipliesAlongVectors(nest, plan) ? words::kDot : words::kHorizontal;
  if (!isContraction(nest)) return words::kReduction;
  return plan.sliding ? words::kSliding : words::kOuterProduct;
}

std::string refusal(std::string_view variant, const Nest& nest, const TilePlan& plan) {
  if (variant == words::kScalar || plan.lanes == 1) return "";
  if (!llvm::all_of(nest.statements, [](const Statement& each) { return isVectorizableBody(*each.body()); }))
    return "a body has no vector code";
  if (plan.horizontal && !canCombineLanes(nest)) return "partial sums of the lanes cannot be added up";
  if (plan.transposed >= 0)
    if (std::string reason = refusedTurn(nest, plan); !reason.empty()) return reason;
  if (variant == words::kTransform) return refusedTransform(nest, plan);
  if (variant == words::kSliding) {
    int64_t points = 1;
    for (int loop : plan.points) points *= pointsAlong(plan, loop);
    if (points < 2 || plan.tile[plan.reductions.back()] < 2)
      return "a window slides along two points at least, in two steps of the innermost sum at least";
    if (plan.ahead > 0) return "a window that slides fetches nothing ahead";
  }
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (plan.block[loop] == 0 || !nest.reduction[loop]) continue;
    if (plan.horizontal || !isContraction(nest) || loop != plan.reductions[0] || !partialSums(nest))
      return "a sum is cut into blocks where it is a product's, its outermost, not along the vectors, and its partial "
             "results have a place in memory";
  }
  return "";
}

}  // namespace tessera::compiler::codegen
