#include "compiler/backends/cpu/tiling/panels.h"

#include "compiler/backends/cpu/body_op.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

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

}  // namespace

PanelCopy moveToPanels(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& wanted) {
  PackedOperand packed = wanted;
  packed.within = false;
  Operand& operand = nest.statements[0].inputs[packed.input];
  PanelCopy copy;
  copy.loops = packed.order;
  // Along a reduction there is a single panel, which covers the whole loop.
  copy.width = nest.reduction[packed.loop] ? nest.extents[packed.loop] : plan.tile[packed.loop];
  llvm::SmallVector<int64_t> extents;
  for (int loop : copy.loops) extents.push_back(nest.extents[loop]);
  Access panels = panelsOf(builder, nest, plan, packed, copy.loops, copy.width);
  copy.nest = copyNest(builder, operand.access, panels, copy.loops, extents);
  operand.access = std::move(panels);
  return copy;
}

BlockPanels blockPanels(const Nest& nest, const TilePlan& plan, const PackedOperand& packed) {
  BlockPanels panels;
  panels.copy.input = packed.input;
  panels.copy.ahead = packed.ahead;
  panels.width = plan.tile[packed.loop];
  for (int loop : packed.order) {
    bool outside = false, inside = nest.reduction[loop] || plan.tile[loop] == nest.extents[loop];
    for (auto [level, each] : llvm::enumerate(plan.levels))
      if (each.loop == loop) (static_cast<int>(level) < plan.copy_level ? outside : inside) = true;
    if (inside) panels.loops.push_back(loop);
    if (!outside) continue;
    const int64_t covered = copiedAlong(nest, plan, packed, loop);
    if (nest.extents[loop] % covered != 0) panels.copy.partial_loops.push_back(panels.copy.moving_loops.size());
    panels.copy.moving_loops.push_back({loop, covered});
  }
  return panels;
}

mlir::Value moveToBlockPanels(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& packed,
                              BlockPanels& panels) {
  Operand& operand = nest.statements[0].inputs[packed.input];
  BlockCopy& block = panels.copy;
  const Access to = panelsOf(builder, nest, plan, packed, panels.loops, panels.width);
  Access source = operand.access;
  // The source moves with the block's number, like an operand with the slice's number.
  for (const auto& [loop, covered] : block.moving_loops) source.slice.push_back(source.strides[loop]);
  // Bit b: the block is the last, smaller one along the b-th loop that is cut. Each combination has code of its own.
  for (unsigned last = 0; last < 1U << block.partial_loops.size(); ++last) {
    llvm::SmallVector<int64_t> extents;
    for (int loop : panels.loops) {
      const auto* cut =
          llvm::find_if(block.partial_loops, [&](size_t at) { return block.moving_loops[at].loop == loop; });
      const bool smaller = cut != block.partial_loops.end() && (last >> (cut - block.partial_loops.begin()) & 1);
      const int64_t covered = copiedAlong(nest, plan, packed, loop);
      extents.push_back(smaller ? nest.extents[loop] % covered : covered);
    }
    block.nests.push_back(copyNest(builder, source, to, panels.loops, extents));
  }
  operand.access = to;
  return to.root;
}

}  // namespace tessera::compiler::codegen
