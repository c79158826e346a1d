#include "compiler/backends/cpu/tiling/micro_kernel.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/reduction.h"

namespace tessera::compiler::codegen {
namespace {

/// Whether some operand is contiguous along the transposed loop and strided along the vectors, so that squares of it
/// are transposed.
bool transposesSomething(const Nest& nest, const TilePlan& plan) {
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

std::string transposeRefusal(const Nest& nest, const TilePlan& plan) {
  if (plan.transposed == plan.vector_loop || nest.reduction[plan.transposed])
    return "the transposed loop is the vector loop, or sums";
  if (!transposesSomething(nest, plan)) return "no operand lies along the transposed loop and across the vectors";
  if (plan.tile[plan.transposed] > plan.lanes) return "a transposed square has more rows than a vector has lanes";
  return "";
}

}  // namespace

std::string MicroKernel::refusal(const Nest& nest, const TilePlan& plan) const {
  if (plan.lanes == 1) return "";
  if (!llvm::all_of(nest.statements, [](const Statement& each) { return isVectorizableBody(*each.body()); }))
    return "a body has no vector code";
  if (plan.horizontal && !canCombineLanes(nest)) return "partial sums of the lanes cannot be added up";
  if (plan.transposed >= 0)
    if (std::string reason = transposeRefusal(nest, plan); !reason.empty()) return reason;
  if (pointsOf(nest, plan) < traits_.least_points ||
      (traits_.least_steps > 1 && plan.tile[plan.reductions.back()] < traits_.least_steps))
    return absl::StrCat("a tile of it has ", traits_.least_points, " points at least, and ", traits_.least_steps,
                        " steps of the innermost sum");
  if (plan.ahead > 0 && traits_.fetches && !traits_.prefetches_vectors) return "it fetches no vectors ahead";
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (plan.block[loop] == 0 || !nest.reduction[loop]) continue;
    if (!traits_.streams || loop != plan.reductions[0] || !partialSums(nest))
      return "a sum is cut into blocks where it is a product's, its outermost, not along the vectors, and its partial "
             "results have a place in memory";
  }
  return "";
}

MicroKernel::Iterations MicroKernel::iterations(const Nest& nest, const TilePlan& plan) const {
  Iterations iterations;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) (loop == plan.vector_loop ? iterations.n : iterations.m).push_back(loop);
  iterations.k = plan.reductions;
  return iterations;
}

double MicroKernel::cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const {
  double steps = 1;
  for (int loop : plan.reductions)
    steps *=
        static_cast<double>(loop == plan.vector_loop ? ceilDiv(nest.extents[loop], plan.lanes) : nest.extents[loop]);
  double instructions = 1 + bodyCost(*nest.statements[0].body()) * steps;
  for (const Statement& follower : llvm::drop_begin(nest.statements)) instructions += bodyCost(*follower.body());
  return instructions * static_cast<double>(pointsOf(nest, plan)) / chip.instructionsPerCycle();
}

}  // namespace tessera::compiler::codegen
