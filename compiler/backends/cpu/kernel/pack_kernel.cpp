#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/kernel/kernels.h"
#include "compiler/backends/cpu/kernel/registry.h"
#include "compiler/backends/cpu/tiling/loop_order.h"

namespace tessera::compiler::codegen {
namespace {

/// Runs the copying nests of packing, which select it explicitly; its plan() accepts no nest of a workload.
class PackKernel final : public MicroKernel {
 public:
  PackKernel() : MicroKernel(words::kPack) {}
  std::string_view report(const Nest& /*nest*/) const override { return "pack"; }
  std::optional<TilePlan> plan(const Nest& /*nest*/, const Chip& /*chip*/, const PlanConstraints& /*wanted*/,
                               const TilePlan& /*vectors*/) const override {
    return std::nullopt;
  }
  bool fits(const Nest& /*nest*/, const TilePlan& /*plan*/) const override { return false; }
  /// One vector, or the rows of a square that is transposed.
  int64_t registers(const Nest& /*nest*/, const Chip& /*chip*/, const TilePlan& plan) const override {
    return plan.transposed < 0 ? 1 : plan.tile[plan.transposed];
  }
  void emit(TileEmitter& tile) const override { tile.emitPointByPoint(); }
};

}  // namespace

const MicroKernel& packKernel() {
  static const PackKernel kKernel;
  return kKernel;
}

namespace {

/// The plan of a copy to panels of `panel` iterations of `loop`.
TilePlan planPanels(const Nest& nest, const Chip& chip, int loop, int64_t panel) {
  TilePlan plan = emptyPlan(nest);
  plan.kernel = &packKernel();
  plan.lanes = lanesOf(nest, chip);
  plan.vector_loop = loop;
  plan.tile[loop] = panel;
  plan.vectors = static_cast<int>(ceilDiv(panel, plan.lanes));
  plan.order = byOutputStride(nest);
  // Panels outermost, then the loops within a panel by descending stride.
  sortBy(plan.order, [&](int other) {
    const Access& to = nest.statements[0].outputs[0].access;
    return other == loop ? -to.between(loop) * panel : -to.strides[other];
  });
  plan.transposed =
      nest.statements[0].inputs[0].access.strides[loop] == 1 ? -1 : transposedLoop(nest, plan.vector_loop, plan.lanes);
  if (plan.transposed >= 0) {
    plan.tile[plan.transposed] = std::min<int64_t>(nest.extents[plan.transposed], plan.lanes);
    plan.rows = static_cast<int>(plan.tile[plan.transposed]);
  } else if (const int last = plan.order.back(); last != loop) {
    // Reads a few rows of the source from end to end and writes a kilobyte of each panel at a time, so that both sides
    // are sequential streams.
    const int64_t row = panel * widestBits(nest) / 8;
    plan.tile[last] = std::min<int64_t>({nest.extents[last], 16, ceilDiv(1024, row)});
    plan.rows = static_cast<int>(plan.tile[last]);
    plan.order.erase(llvm::find(plan.order, loop));
    plan.order.push_back(loop);
  }
  plan.points = plan.order;
  plan.orderLevels(0);
  chooseGrid(nest, chip, plan);
  return plan;
}

}  // namespace

TilePlan planCopy(const Nest& copy, const Nest& nest, const PackedOperand& packed, llvm::ArrayRef<int> loops,
                  int64_t width, const Chip& chip) {
  // The last, smaller block may hold less than a panel.
  if (!nest.reduction[packed.loop] && !packed.strided_copy) {
    const int position = static_cast<int>(llvm::find(loops, packed.loop) - loops.begin());
    return planPanels(copy, chip, position, std::min(width, copy.extents[position]));
  }
  TilePlan plan = planTile(copy, chip);
  plan.kernel = &packKernel();
  return plan;
}

}  // namespace tessera::compiler::codegen
