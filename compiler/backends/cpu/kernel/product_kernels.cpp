// Kernels that multiply two operands and sum the products, with any instruction that evaluates a step.
#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/kernel/kernels.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/dot_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"

namespace tessera::compiler::codegen {
namespace {

class ProductKernel : public MicroKernel {
 public:
  using MicroKernel::MicroKernel;

  std::string_view report(const Nest& /*nest*/) const override { return "contraction"; }

 protected:
  /// Rows of a tile, and its vectors or columns.
  std::pair<int64_t, int64_t> tileOf(const Nest& nest, const TilePlan& plan) const {
    const Iterations all = iterations(nest, plan);
    int64_t rows = 1, vectors = 1;
    for (int loop : all.m) rows *= pointsAlong(plan, loop);
    for (int loop : all.n) vectors *= pointsAlong(plan, loop);
    return {rows, vectors};
  }

  /// Steps of the whole sum; a step is a whole vector where vectors run along the sum.
  static double steps(const Nest& nest, const TilePlan& plan) {
    double steps = 1;
    for (int loop : plan.reductions)
      steps *=
          static_cast<double>(loop == plan.vector_loop ? ceilDiv(nest.extents[loop], plan.lanes) : nest.extents[loop]);
    return steps;
  }
};

/// Vectors along a parallel loop; the sums of a tile of rows and vectors stay in registers.
class StreamedProductKernel : public ProductKernel {
 public:
  using ProductKernel::ProductKernel;

  std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                               const TilePlan& vectors) const override {
    // Order matters: memory is planned for the unrolled reductions, and panels for the final loop order.
    if (!fits(nest, vectors) || !takes(nest, chip, rolesOf(nest, vectors))) return std::nullopt;
    TilePlan plan = vectors;
    planContraction(nest, chip, wanted, constraints(chip), plan);
    orderReductions(nest, plan);
    unroll(nest, chip, plan);
    planMemory(nest, chip, wanted, plan);
    orderPanels(nest, chip, plan);
    return plan;
  }
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && nest.hasReduction() && !plan.horizontal && isContraction(nest);
  }
  Iterations iterations(const Nest& nest, const TilePlan& plan) const override {
    const Roles roles = rolesOf(nest, plan);
    Iterations iterations{roles.rows, roles.columns, plan.reductions};
    // Roles list the innermost loop first.
    std::reverse(iterations.m.begin(), iterations.m.end());
    std::reverse(iterations.n.begin(), iterations.n.end());
    iterations.n.push_back(plan.vector_loop);
    return iterations;
  }
  int64_t registers(const Nest& nest, const Chip& chip, const TilePlan& plan) const override {
    const Roles roles = rolesOf(nest, plan);
    const int64_t columns = roles.columns.empty() ? 1 : plan.tile[roles.columns[0]];
    const auto [rows, vectors] = tileOf(nest, plan);
    return costs(nest, chip, plan).registers(rows, vectors, columns);
  }
  double cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const override {
    const auto [rows, vectors] = tileOf(nest, plan);
    return costs(nest, chip, plan).step(rows, vectors) * steps(nest, plan);
  }

 protected:
  /// Whether analysis selects this kernel for the nest.
  virtual bool takes(const Nest& nest, const Chip& chip, const Roles& roles) const = 0;
  virtual TileConstraints constraints(const Chip& chip) const = 0;
  virtual void unroll(const Nest& nest, const Chip& chip, TilePlan& plan) const = 0;

 private:
  ProductCosts costs(const Nest& nest, const Chip& chip, const TilePlan& plan) const {
    return {nest, chip, rolesOf(nest, plan), constraints(chip), plan.lanes};
  }
};

class OuterProductKernel final : public StreamedProductKernel {
 public:
  OuterProductKernel() : StreamedProductKernel(words::kOuterProduct) {}
  bool evaluates(const ProductInstructionStep& step) const override { return step.tiles() == nullptr; }
  void emit(TileEmitter& tile) const override { tile.emitSum(TileEmitter::Steps::kOutside); }

 protected:
  /// An instruction on small matrices takes its rows from one operand alone.
  bool takes(const Nest& nest, const Chip& /*chip*/, const Roles& roles) const override {
    const auto& step = nest.statements[0].step;
    return !step || !step->matrices() || roles.a >= 0;
  }
  TileConstraints constraints(const Chip& /*chip*/) const override { return {}; }
  void unroll(const Nest& nest, const Chip& chip, TilePlan& plan) const override {
    unrollReductions(nest, chip, plan);
    reduceOverlappingUnroll(nest, chip, plan);
    const auto& step = nest.statements[0].step;
    if (!step || step->steps() == 1) return;
    // Whole instructions: steps that are left over at the end of a tile take an instruction with zeros.
    const int last = plan.reductions.back();
    plan.tile[last] = std::min(nest.extents[last], ceilDiv(plan.tile[last], int64_t{step->steps()}) * step->steps());
  }
};

/// Neighbouring points read the same vectors at different steps of the innermost reductions. Steps run within points,
/// so that a vector is loaded once and its uses are close together.
class SlidingKernel final : public StreamedProductKernel {
 public:
  SlidingKernel() : StreamedProductKernel(words::kSliding) {}
  void emit(TileEmitter& tile) const override { tile.emitSum(TileEmitter::Steps::kWithin); }

 protected:
  bool takes(const Nest& nest, const Chip& chip, const Roles& roles) const override {
    return slides(nest, chip, roles);
  }
  /// A sliding window keeps the shared vectors and a row of the other operand in addition to the sums; with 32
  /// registers that operand stays in registers entirely.
  TileConstraints constraints(const Chip& chip) const override {
    return {.operand_registers = chip.vectorRegisters() >= 32 ? 13 : 6, .single_row_loop = true};
  }
  /// Unrolls a small window entirely, and only the rows of a larger one.
  void unroll(const Nest& nest, const Chip& chip, TilePlan& plan) const override {
    const int along = plan.reductions.back();
    int64_t steps = 1;
    for (int loop : plan.reductions) steps *= nest.extents[loop];
    for (int loop : plan.reductions)
      if (loop == along || steps <= chip.costParameters().tiles().unrolled_window())
        plan.tile[loop] = nest.extents[loop];
  }
};

class DotKernel final : public ProductKernel {
 public:
  DotKernel() : ProductKernel(words::kDot) {}

  std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                               const TilePlan& vectors) const override {
    if (!fits(nest, vectors)) return std::nullopt;
    TilePlan plan = vectors;
    planDots(nest, chip, plan);
    orderReductions(nest, plan);
    unrollReductions(nest, chip, plan);
    planDotMemory(nest, wanted, plan);
    orderPanels(nest, chip, plan);
    return plan;
  }
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && nest.hasReduction() && plan.horizontal && multipliesAlongVectors(nest, plan);
  }
  Iterations iterations(const Nest& nest, const TilePlan& plan) const override {
    Iterations iterations{.m = {}, .n = {}, .k = plan.reductions};
    const auto [row, column] = dotLoops(nest);
    if (row >= 0) iterations.m.push_back(row);
    if (column >= 0) iterations.n.push_back(column);
    return iterations;
  }
  int64_t registers(const Nest& nest, const Chip& /*chip*/, const TilePlan& plan) const override {
    const auto [rows, columns] = tileOf(nest, plan);
    return DotCosts::registers(rows, columns);
  }
  double cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const override {
    const auto [rows, columns] = tileOf(nest, plan);
    return DotCosts(nest, chip, plan).step(rows, columns, columns) * steps(nest, plan);
  }
  void emit(TileEmitter& tile) const override { tile.emitSum(TileEmitter::Steps::kOutside); }
};

}  // namespace

const MicroKernel& outerProductKernel() {
  static const OuterProductKernel kKernel;
  return kKernel;
}

const MicroKernel& slidingKernel() {
  static const SlidingKernel kKernel;
  return kKernel;
}

const MicroKernel& dotKernel() {
  static const DotKernel kKernel;
  return kKernel;
}

}  // namespace tessera::compiler::codegen
