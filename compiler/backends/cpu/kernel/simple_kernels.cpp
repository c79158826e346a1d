// Kernels whose tile is a few independent vectors.
#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/kernel/kernels.h"
#include "compiler/backends/cpu/tiling/dot_plan.h"
#include "compiler/backends/cpu/tiling/register_pressure.h"

namespace tessera::compiler::codegen {
namespace {

/// The results of the tile's points wait for their stores while one more point is computed.
int64_t registersOfPoints(const Nest& nest, const TilePlan& plan) {
  return liveVectors(nest) + static_cast<int64_t>(nest.statements[0].outputs.size()) * (pointsOf(nest, plan) - 1);
}

class SimpleKernel : public MicroKernel {
 public:
  using MicroKernel::MicroKernel;

  std::string_view report(const Nest& nest) const override {
    return isContraction(nest) ? "contraction" : nest.hasReduction() ? "reduction" : "elementwise";
  }
  std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const PlanConstraints& /*wanted*/,
                               const TilePlan& vectors) const override {
    TilePlan plan = vectors;
    // Decides between the elementwise and the transposing kernel, so it is set before fits().
    plan.transposed = transposedLoop(nest, plan.vector_loop, plan.lanes);
    if (!fits(nest, plan)) return std::nullopt;
    chooseSimpleTile(nest, chip, plan);
    plan.points = plan.order;
    orderReductions(nest, plan);
    unrollReductions(nest, chip, plan);
    plan.orderLevels(0);
    return plan;
  }
  int64_t registers(const Nest& nest, const Chip& /*chip*/, const TilePlan& plan) const override {
    return registersOfPoints(nest, plan);
  }
};

class ScalarKernel final : public SimpleKernel {
 public:
  ScalarKernel() : SimpleKernel(words::kScalar) {}
  std::string_view report(const Nest& /*nest*/) const override { return "scalar-loops"; }
  bool fits(const Nest& /*nest*/, const TilePlan& plan) const override { return plan.lanes == 1; }
  /// Scalars use separate registers.
  int64_t registers(const Nest& /*nest*/, const Chip& /*chip*/, const TilePlan& /*plan*/) const override { return 0; }
  void emit(TileEmitter& tile) const override {
    if (tile.nest().hasReduction()) return tile.emitSum(TileEmitter::Steps::kOutside);
    tile.emitPoints();
  }
};

class ElementwiseKernel final : public SimpleKernel {
 public:
  ElementwiseKernel() : SimpleKernel(words::kElementwise) {}
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && !nest.hasReduction() && plan.transposed < 0;
  }
  void emit(TileEmitter& tile) const override { tile.emitPoints(); }
};

class TransposedKernel final : public SimpleKernel {
 public:
  TransposedKernel() : SimpleKernel(words::kTransposed) {}
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && !nest.hasReduction() && plan.transposed >= 0;
  }
  /// The rows of a square.
  int64_t registers(const Nest& /*nest*/, const Chip& /*chip*/, const TilePlan& plan) const override {
    return plan.tile[plan.transposed];
  }
  void emit(TileEmitter& tile) const override { tile.emitPointByPoint(); }
};

class ReductionKernel final : public SimpleKernel {
 public:
  ReductionKernel() : SimpleKernel(words::kReduction) {}
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && nest.hasReduction() && !plan.horizontal && !isContraction(nest);
  }
  void emit(TileEmitter& tile) const override { tile.emitSum(TileEmitter::Steps::kOutside); }
};

class HorizontalKernel final : public SimpleKernel {
 public:
  HorizontalKernel() : SimpleKernel(words::kHorizontal) {}
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && nest.hasReduction() && plan.horizontal && !multipliesAlongVectors(nest, plan);
  }
  void emit(TileEmitter& tile) const override { tile.emitSum(TileEmitter::Steps::kOutside); }
};

}  // namespace

const MicroKernel& scalarKernel() {
  static const ScalarKernel kKernel;
  return kKernel;
}

const MicroKernel& elementwiseKernel() {
  static const ElementwiseKernel kKernel;
  return kKernel;
}

const MicroKernel& transposedKernel() {
  static const TransposedKernel kKernel;
  return kKernel;
}

const MicroKernel& reductionKernel() {
  static const ReductionKernel kKernel;
  return kKernel;
}

const MicroKernel& horizontalKernel() {
  static const HorizontalKernel kKernel;
  return kKernel;
}

}  // namespace tessera::compiler::codegen
