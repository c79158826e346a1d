#include "compiler/backends/cpu/emit/apply_matrix.h"
#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/kernel/kernels.h"
#include "compiler/backends/cpu/tiling/separable.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {
namespace {

using Values = llvm::SmallVector<mlir::Value>;

/// Computes one block of a separable transform: applies the left matrix to its columns as they are loaded, then the
/// right matrix to the rows of the result.
class TransformKernel final : public MicroKernel {
 public:
  TransformKernel() : MicroKernel(words::kTransform) {}

  std::string_view report(const Nest& /*nest*/) const override { return "transform"; }

  std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const PlanConstraints& /*wanted*/,
                               const TilePlan& /*vectors*/) const override {
    const auto transform = separableTransform(nest);
    TilePlan plan = emptyPlan(nest);
    if (!transform || !planTransform(nest, *transform, lanesOf(nest, chip), plan)) return std::nullopt;
    return plan;
  }
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    return plan.lanes > 1 && nest.hasReduction() && !plan.horizontal && separableTransform(nest);
  }
  std::string refusal(const Nest& nest, const TilePlan& plan) const override {
    if (std::string reason = MicroKernel::refusal(nest, plan); !reason.empty()) return reason;
    const SeparableTransform transform = *separableTransform(nest);
    const int v = plan.vector_loop;
    if (nest.statements[0].inputs[transform.source].access.strides[v] != 1 ||
        nest.statements[0].outputs[0].access.strides[v] != 1)
      return "source and result are not contiguous along the vector loop";
    if (plan.tile[v] > plan.lanes) return "the tile has more than one vector";
    if (plan.reductions.front() != transform.left.reduction) return "the sum of the left matrix is the first";
    for (int loop = 0; loop < nest.loops(); ++loop) {
      const bool side = loop == transform.left.parallel || loop == transform.right.parallel ||
                        loop == transform.left.reduction || loop == transform.right.reduction;
      if (loop != v && plan.tile[loop] != (side ? nest.extents[loop] : 1)) return "the tile is not one whole block";
    }
    return "";
  }

  /// A column or row and its product with a matrix; the rest of the block is kept on the stack.
  int64_t registers(const Nest& nest, const Chip& /*chip*/, const TilePlan& /*plan*/) const override {
    const SeparableTransform transform = *separableTransform(nest);
    int64_t most = 0;
    for (const TransformSide* side : {&transform.left, &transform.right})
      most = std::max(most, nest.extents[side->parallel] + nest.extents[side->reduction]);
    return most;
  }
  /// A block costs a few instructions per element, not a sum for each.
  double instructions(const Nest& nest, const TilePlan& plan) const override {
    return 6.0 * static_cast<double>(pointsOf(nest, plan));
  }
  double cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const override {
    return instructions(nest, plan) / chip.instructionsPerCycle();
  }

  void emit(TileEmitter& tile) const override {
    const Nest& nest = tile.nest();
    const int lanes = tile.plan().lanes;
    const bool fuse = tile.chip().fusesMultiplyAdd();
    const SeparableTransform transform = *separableTransform(nest);
    const auto& [left, right] = std::pair(transform.left, transform.right);
    const int slot = tile.slotOf(0, false, transform.source);
    const mlir::Type element = nest.statements[0].outputs[0].access.element;
    std::vector<Values> halfway(left.matrix.size());  // [p][j]
    for (int64_t j = 0; j < nest.extents[right.reduction]; ++j) {
      Values column;
      for (int64_t i = 0; i < nest.extents[left.reduction]; ++i) {
        Point point = tile.points()[0];
        point.at[left.reduction] = i;
        point.at[right.reduction] = j;
        mlir::Value value = tile.memory().load(slot, point, lanes);
        if (mlir::getElementTypeOrSelf(value.getType()) != element)
          value = mlir::arith::ExtFOp::create(tile.builder(), value.getLoc(), mlir::VectorType::get({lanes}, element),
                                              value);
        column.push_back(value);
      }
      const Values turned = applyMatrix(tile.builder(), left.matrix, column, fuse);
      for (auto [p, value] : llvm::enumerate(turned)) halfway[p].push_back(value);
    }
    std::vector<Values> results;  // [p][q]
    for (const Values& row : halfway) results.push_back(applyMatrix(tile.builder(), right.matrix, row, fuse));
    Values ordered;
    for (const Point& point : tile.points())
      ordered.push_back(results[point.at[left.parallel]][point.at[right.parallel]]);
    tile.emitResults(ordered);
  }
};

}  // namespace

const MicroKernel& transformKernel() {
  static const TransformKernel kKernel;
  return kKernel;
}

}  // namespace tessera::compiler::codegen
