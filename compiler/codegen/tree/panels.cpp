#include "compiler/codegen/tree/panels.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/body_op.h"
#include "compiler/codegen/kernel/kernels.h"
#include "compiler/codegen/kernel/registry.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/schedule/fault.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Creates a buffer for the panels of an operand, and the access of the panels within `loops`.
Access panelsOf(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const PackedOperand& packed,
                llvm::ArrayRef<int> loops, int64_t width) {
  Access panels;
  panels.element = nest.statements[0].inputs[packed.input].access.element;
  panels.strides.assign(nest.loops(), 0);
  panels.panel.assign(nest.loops(), 0);
  int64_t elements = width;
  if (packed.strided_copy) elements = 1;
  for (int loop : llvm::reverse(loops)) {
    const int64_t extent = copiedAlong(nest, plan, packed, loop);
    if (packed.strided_copy) {
      // Rows at a padded distance: the layout of the tensor with other strides.
      if (loop == packed.loop) elements = packed.distance;
      panels.strides[loop] = panels.panel[loop] = elements;
      elements *= extent;
    } else if (loop == packed.loop) {
      panels.strides[loop] = 1;
      // `elements` from one panel to the next for `width` iterations. Along a reduction the single panel continues from
      // tile to tile.
      panels.panel[loop] = nest.reduction[loop] ? 1 : elements / width;
      elements *= ceilDiv(extent, width);
    } else {
      panels.strides[loop] = panels.panel[loop] = elements;
      elements *= extent;
    }
  }
  panels.root = mlir::memref::AllocOp::create(builder, builder.getUnknownLoc(),
                                              mlir::MemRefType::get({elements}, panels.element));
  return panels;
}

/// The nest that copies `extents` iterations of `loops` from one access to the other.
Nest copyNest(mlir::OpBuilder& builder, const Access& from, const Access& to, llvm::ArrayRef<int> loops,
              llvm::ArrayRef<int64_t> extents) {
  Statement statement;
  statement.op = bodyOp(builder, to.element, 1,
                        [](mlir::OpBuilder&, mlir::Location, mlir::ValueRange arguments) { return arguments[0]; });
  auto narrowed = [&](const Access& access) {
    Access result = access;
    result.strides.clear();
    result.panel.clear();
    for (int loop : loops) result.strides.push_back(access.strides[loop]);
    if (!access.panel.empty())
      for (int loop : loops) result.panel.push_back(access.panel[loop]);
    return result;
  };
  statement.inputs.push_back({narrowed(from), nullptr, std::nullopt});
  statement.outputs.push_back({narrowed(to), nullptr, std::nullopt});
  statement.init.push_back(nullptr);
  statement.stored.push_back(true);
  statement.index_weights.emplace_back(loops.size(), 0);
  Nest copy;
  copy.extents.assign(extents.begin(), extents.end());
  copy.reduction.assign(loops.size(), false);
  copy.statements.push_back(std::move(statement));
  return copy;
}

absl::StatusOr<TilePlan> copyPlan(const Nest& copy, const Nest& nest, const PackedOperand& packed,
                                  llvm::ArrayRef<int> loops, int64_t width, int number, const Chip& chip,
                                  const Leaf* leaf) {
  if (leaf) return packPlanOf(*leaf, copy, number, packed.input, width, chip);
  const int position = static_cast<int>(llvm::find(loops, packed.loop) - loops.begin());
  const bool panels = !nest.reduction[packed.loop] && !packed.strided_copy;
  // The last, smaller block may hold less than a panel.
  if (panels) return planPanelCopy(copy, chip, position, std::min(width, copy.extents[position]));
  TilePlan plan = planTile(copy, chip);
  plan.kernel = &packKernel();
  return plan;
}

/// The leaf's stage for input `input`.
const v1::Stage& stageOf(const Leaf& leaf, int input) {
  return *llvm::find_if(leaf.tile->stages(), [&](const v1::Stage& stage) { return stage.operand() == input; });
}

}  // namespace

absl::StatusOr<Copy> packInput(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& wanted,
                               int number, const Chip& chip, const Leaf* leaf) {
  PackedOperand packed = wanted;
  packed.within = false;
  Operand& operand = nest.statements[0].inputs[packed.input];
  // Along a reduction there is a single panel, which covers the whole loop.
  const int64_t width = nest.reduction[packed.loop] ? nest.extents[packed.loop] : plan.tile[packed.loop];
  const llvm::SmallVector<int>& loops = packed.order;
  llvm::SmallVector<int64_t> extents;
  for (int loop : loops) extents.push_back(nest.extents[loop]);
  Access panels = panelsOf(builder, nest, plan, packed, loops, width);
  Copy copy{copyNest(builder, operand.access, panels, loops, extents), {}};
  TESSERA_ASSIGN_OR_RETURN(copy.plan, copyPlan(copy.nest, nest, packed, loops, width, number, chip, leaf));
  operand.access = std::move(panels);
  return copy;
}

absl::StatusOr<mlir::Value> packWithin(mlir::OpBuilder& builder, Nest& nest, TilePlan& plan,
                                       const PackedOperand& packed, int number, const Chip& chip, const Leaf* leaf) {
  Operand& operand = nest.statements[0].inputs[packed.input];
  BlockCopy block;
  block.input = packed.input;
  block.ahead = packed.ahead;
  llvm::SmallVector<int> loops;
  for (int loop : packed.order) {
    bool outside = false, inside = nest.reduction[loop] || plan.tile[loop] == nest.extents[loop];
    for (auto [level, each] : llvm::enumerate(plan.levels))
      if (each.loop == loop) (static_cast<int>(level) < plan.copy_level ? outside : inside) = true;
    if (inside) loops.push_back(loop);
    if (!outside) continue;
    const int64_t covered = copiedAlong(nest, plan, packed, loop);
    if (nest.extents[loop] % covered != 0) block.cut.push_back(block.moved.size());
    block.moved.push_back({loop, covered});
  }
  if (leaf && stageOf(*leaf, packed.input).copies_size() != 1 << block.cut.size())
    return scheduleFault(leaf->path,
                         "leaves of a copy within blocks, one for each combination of whole and last blocks",
                         absl::StrCat(stageOf(*leaf, packed.input).copies_size()), absl::StrCat(1 << block.cut.size()));
  if (std::string accepted = refusedDistance(nest, plan, packed, loops); leaf && !accepted.empty())
    return scheduleFault(leaf->path, "elements from one row to the next", absl::StrCat(packed.distance), accepted);
  const int64_t width = plan.tile[packed.loop];
  const Access panels = panelsOf(builder, nest, plan, packed, loops, width);
  Access source = operand.access;
  // The source moves with the block's number, like an operand with the slice's number.
  for (const auto& [loop, covered] : block.moved) source.slice.push_back(source.strides[loop]);
  // Bit b: the block is the last, smaller one along the b-th loop that is cut. Each combination has code of its own.
  for (unsigned last = 0; last < 1U << block.cut.size(); ++last) {
    llvm::SmallVector<int64_t> extents;
    for (int loop : loops) {
      const auto* cut = llvm::find_if(block.cut, [&](size_t at) { return block.moved[at].loop == loop; });
      const bool smaller = cut != block.cut.end() && (last >> (cut - block.cut.begin()) & 1);
      const int64_t covered = copiedAlong(nest, plan, packed, loop);
      extents.push_back(smaller ? nest.extents[loop] % covered : covered);
    }
    block.nests.push_back(copyNest(builder, source, panels, loops, extents));
    std::optional<Leaf> copy;
    if (leaf) {
      copy.emplace(
          Leaf{&stageOf(*leaf, packed.input).copies(static_cast<int>(last)), absl::StrCat(leaf->path, " copy ", last)});
    }
    TESSERA_ASSIGN_OR_RETURN(
        auto its, copyPlan(block.nests.back(), nest, packed, loops, width, number, chip, copy ? &*copy : nullptr));
    block.plans.push_back(std::move(its));
  }
  operand.access = panels;
  plan.copies.push_back(std::move(block));
  return panels.root;
}

}  // namespace tessera::compiler::codegen
