#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/reduction.h"
#include "compiler/backends/cpu/tiling/tile_cost.h"

namespace tessera::compiler::codegen {
namespace {

/// Whether inputs along `loop` can be transposed in registers: another parallel loop walks them contiguously.
bool canTranspose(const Nest& nest, const Operand& operand, int loop, int lanes) {
  if (lanes > kMaxTransposedLanes || operand.access.element.isInteger(1) || operand.access.element.isIndex())
    return false;
  for (int other = 0; other < nest.loops(); ++other)
    if (other != loop && !nest.reduction[other] && nest.extents[other] >= lanes / 2 &&
        operand.access.strides[other] == 1)
      return true;
  return false;
}

/// The number of uses of one element of `operand`: iterations of the parallel loops that do not walk it.
double reuseOf(const Nest& nest, const Operand& operand) {
  double uses = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop] && !varies(operand, loop)) uses *= static_cast<double>(nest.extents[loop]);
  return uses;
}

/// Cost in vector instructions per element of making `loop` the vector loop. Strided operands are loaded lane by lane,
/// transposed in registers, or, in a contraction, packed in advance. Outputs of a reduction are touched once for all
/// its steps, and a register tile of a contraction reads its operands once for several results.
double vectorLoopCost(const Nest& nest, const v1::CostParameters& parameters, int loop, int lanes, bool contraction) {
  const v1::CostParameters::Vectors& vectors = parameters.vectors();
  double cost = 0, steps = 1;
  for (int other = 0; other < nest.loops(); ++other)
    if (nest.reduction[other]) steps *= static_cast<double>(nest.extents[other]);
  // A register tile shares loads only if every input is used by enough results.
  bool tiled = contraction;
  for (const Operand& input : nest.statements[0].inputs)
    tiled &= reuseOf(nest, input) >= static_cast<double>(vectors.shared_uses());
  const double contiguous = tiled ? vectors.shared_load() : 1;
  auto charge = [&](const Operand& operand, bool parallel_only, bool output, int input) {
    if (!operand.access.root || operand.from || (parallel_only && nest.reduction[loop])) return;
    const int64_t stride = operand.access.strides[loop];
    const double reads = parallel_only ? 1 / steps : 1;  // followers read once for all steps of the reduction
    if (stride == 0 || stride == 1) {
      cost += output ? 1 / steps : contiguous * reads;
      return;
    }
    double strided = (output ? vectors.strided_store() : vectors.strided_load()) * lanes;
    // Packing costs instructions once per element, spread over all uses of the element.
    if (contraction && input >= 0 && canPack(nest, input))
      strided =
          std::min(strided, contiguous + parameters.copies().pack_instructions() * lanes / reuseOf(nest, operand));
    if (!nest.hasReduction() && !output && canTranspose(nest, operand, loop, lanes))
      strided = std::min(strided, vectors.transposed_load());
    if (!output && loadsWholeVectors(stride, lanes))
      strided = std::min(strided, contiguous * static_cast<double>(stridedLoadCost(stride)));
    cost += output ? (steps > 1 ? vectors.strided_sums() : 1) * strided / steps : strided * reads;
  };
  for (const Statement& statement : nest.statements) {
    const bool main = &statement == nest.statements.data();
    for (auto [i, input] : llvm::enumerate(statement.inputs))
      charge(input, !main, false, main ? static_cast<int>(i) : -1);
    for (const Operand& output : statement.outputs) charge(output, true, true, -1);
  }
  if (nest.reduction[loop])
    cost += vectors.combine() * lanes / static_cast<double>(nest.extents[loop]) + vectors.combine_once();
  // The last vector of the loop is only partly used, which makes each element more expensive.
  const double used = static_cast<double>(nest.extents[loop]) / (ceilDiv(nest.extents[loop], lanes) * lanes);
  return cost / (lanes * used);
}

/// Sum of the distances, in elements, between neighbouring lanes of non-contiguous operands: a measure of how many
/// cache lines, in how few sets, a vector along `loop` touches.
double elementsApart(const Nest& nest, int loop) {
  double apart = 0;
  auto add = [&](const Operand& operand) {
    if (!operand.access.root || operand.from) return;
    const auto stride = static_cast<double>(std::abs(operand.access.strides[loop]));
    if (stride > 1) apart += stride;
  };
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs) add(input);
    for (const Operand& output : statement.outputs) add(output);
  }
  return apart;
}

}  // namespace

TilePlan planVectors(const Nest& nest, const Chip& chip) {
  TilePlan plan = emptyPlan(nest);
  const int whole = lanesOf(nest, chip);
  if (whole < 2 || !llvm::all_of(nest.statements, [](const Statement& s) { return isVectorizableBody(*s.body()); }))
    return plan;
  const bool can_combine = canCombineLanes(nest), contraction = isContraction(nest);
  double best = std::numeric_limits<double>::infinity();
  auto consider = [&](int loop, int lanes) {
    const double cost = vectorLoopCost(nest, chip.costParameters(), loop, lanes, contraction);
    // Among loops of equal cost, the one whose lanes are nearest in memory, then the outermost.
    const bool same = plan.vector_loop >= 0 && lanes == plan.lanes && std::abs(cost - best) <= 1e-9;
    if (same ? elementsApart(nest, loop) >= elementsApart(nest, plan.vector_loop) : cost >= best - 1e-9) return;
    best = cost;
    plan.vector_loop = loop;
    plan.lanes = lanes;
  };
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (nest.extents[loop] == 1 || (nest.reduction[loop] && !can_combine)) continue;
    consider(loop, whole);
    // For narrow types a whole vector has more lanes than a transposed square; considers a shorter vector as well.
    if (whole > kMaxTransposedLanes && transposedLoop(nest, loop, kMaxTransposedLanes) >= 0)
      consider(loop, kMaxTransposedLanes);
  }
  // No loop can be the vector loop: the nest runs as scalar code.
  if (plan.vector_loop < 0) return plan;
  plan.horizontal = nest.reduction[plan.vector_loop];
  return plan;
}

int transposedLoop(const Nest& nest, int vector_loop, int lanes) {
  // An input with a stride along the vector loop would be gathered element by element. If another loop has stride 1 in
  // it, a square of both loops is loaded by rows and transposed in registers.
  if (lanes == 1 || nest.hasReduction()) return -1;
  for (const Statement& statement : nest.statements)
    for (const Operand& input : statement.inputs) {
      if (!input.access.root || input.from) continue;
      const int64_t stride = input.access.strides[vector_loop];
      if (stride == 0 || stride == 1 || !canTranspose(nest, input, vector_loop, lanes)) continue;
      for (int loop = 0; loop < nest.loops(); ++loop)
        if (loop != vector_loop && input.access.strides[loop] == 1) return loop;
    }
  return -1;
}

}  // namespace tessera::compiler::codegen
