#include "compiler/backends/cpu/emit/loop_emitter.h"

#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

class LoopEmitter {
 public:
  LoopEmitter(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context)
      : b_(builder), loc_(builder.getUnknownLoc()), nest_(nest), plan_(plan), context_(context) {}

  void emit(Value lo, Value hi) {
    Tile tile;
    tile.sizes.assign(plan_.tile.begin(), plan_.tile.end());
    tile.origin.assign(nest_.loops(), nullptr);
    for (const Statement& statement : nest_.statements) {
      for (const Operand& input : statement.inputs)
        // Operands that pass in registers have no pointer.
        tile.slots.push_back({&input, accessesInputMemory(input) ? base(input.access) : nullptr});
      for (auto [o, output] : llvm::enumerate(statement.outputs))
        tile.slots.push_back({&output, accessesOutputMemory(statement, o) ? base(output.access) : nullptr});
    }
    // Around the whole range of the thread, not around each tile.
    plan_.kernel->enter(b_, nest_, plan_);
    auto loop = mlir::scf::ForOp::create(b_, loc_, lo, hi, constant(1));
    plan_.kernel->leave(b_, nest_);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    grid(0, loop.getInductionVar(), tile);
  }

 private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(b_, loc_, value, 64); }
  Value compare(arith::CmpIPredicate predicate, Value a, int64_t b) {
    return arith::CmpIOp::create(b_, loc_, predicate, a, constant(b));
  }

  Value base(const Access& access) {
    Value pointer = context_.pointer(access.root);
    const mlir::Type element = memoryType(access.element);
    for (auto [stride, number] : llvm::zip(access.slice, context_.slice))
      pointer = advance(b_, pointer, element, stride, number);
    if (access.offset == 0) return pointer;
    return advance(b_, pointer, element, access.offset, constant(1));
  }

  /// Moves the tile by `iterations` of the loop of `level`. The panels of a block start over with each block, so their
  /// pointers do not move at levels outside of the copies.
  void enter(Tile& tile, int level, Value iterations) {
    const int loop = plan_.levels[level].loop;
    tile.origin[loop] =
        tile.origin[loop] ? arith::AddIOp::create(b_, loc_, tile.origin[loop], iterations).getResult() : iterations;
    for (auto [number, slot] : llvm::enumerate(tile.slots))
      if (slot.pointer && (level >= plan_.copy_level || !isCopied(static_cast<int>(number))))
        slot.pointer = advance(b_, slot.pointer, memoryType(slot.operand->access.element),
                               slot.operand->access.between(loop), iterations);
  }

  /// Whether an input of the first statement is packed block by block.
  bool isCopied(int slot) const {
    return llvm::any_of(plan_.copies, [&](const BlockCopy& copy) { return copy.input == slot; });
  }

  /// Copies this block's part of the operands that are packed block by block.
  void copyBlock(const Tile& tile) {
    for (const BlockCopy& copy : plan_.copies) {
      EmitContext context = context_;
      for (const auto& [loop, covered] : copy.moving_loops)
        context.slice.push_back(tile.origin[loop] ? tile.origin[loop] : constant(0));
      OpBuilder::InsertionGuard guard(b_);
      copyBlock(copy, context, tile, 0, 0);
    }
  }

  void copyBlock(const BlockCopy& copy, const EmitContext& context, const Tile& tile, size_t cut, size_t variant) {
    if (cut == copy.partial_loops.size()) {
      const Nest& nest = copy.nests[variant];
      const TilePlan& plan = copy.plans[variant];
      return emitNest(b_, nest, plan, context, constant(0), constant(gridOf(nest, plan)));
    }
    const auto [loop, covered] = copy.moving_loops[copy.partial_loops[cut]];
    auto branch = mlir::scf::IfOp::create(
        b_, loc_,
        compare(arith::CmpIPredicate::sle, context.slice[context_.slice.size() + copy.partial_loops[cut]],
                nest_.extents[loop] - covered),
        /*withElseRegion=*/true);
    b_.setInsertionPointToStart(branch.thenBlock());
    copyBlock(copy, context, tile, cut + 1, variant);
    b_.setInsertionPointToStart(branch.elseBlock());
    // Bit `cut` of the variant: the last, smaller block along that loop.
    copyBlock(copy, context, tile, cut + 1, variant | size_t{1} << cut);
  }

  /// Whether the level walks single tiles rather than blocks of them.
  bool isTileLevel(int level) const { return plan_.levels[level].step == plan_.tile[plan_.levels[level].loop]; }
  bool isBlocked(int loop) const { return plan_.block[loop] > 0; }
  /// Whether the last block that `level` walks is smaller than the others.
  bool walksPart(int level) const {
    return nest_.extents[plan_.levels[level].loop] % plan_.walkedBy(nest_, level) != 0;
  }
  /// In blocked loops, tiles that do not exist, or only in part, are detected at run time.
  bool blockEndsEarly(int loop) const { return isBlocked(loop) && nest_.extents[loop] % plan_.block[loop] != 0; }

  /// Splits `linear` into the positions of the grid's levels, the last level fastest.
  void grid(int level, Value linear, Tile tile) {
    if (level == plan_.grid_levels) return inner(level, tile);
    const auto [loop, step] = plan_.levels[level];
    if (plan_.count(nest_, level) > 1) {
      int64_t below = 1;
      for (int next = level + 1; next < plan_.grid_levels; ++next) below *= plan_.count(nest_, next);
      Value number = linear;
      if (below > 1) {
        number = arith::DivUIOp::create(b_, loc_, linear, constant(below));
        linear = arith::RemUIOp::create(b_, loc_, linear, constant(below));
      }
      enter(tile, level, arith::MulIOp::create(b_, loc_, number, constant(step)));
    }
    if (!isTileLevel(level)) return blocksOfGrid(level, linear, tile);
    const int64_t extent = nest_.extents[loop], rest = extent % step;
    if (rest == 0 && !blockEndsEarly(loop)) return grid(level + 1, linear, tile);
    auto branch = mlir::scf::IfOp::create(
        b_, loc_, compare(arith::CmpIPredicate::sle, tile.origin[loop], extent - step), /*withElseRegion=*/rest > 0);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(branch.thenBlock());
    grid(level + 1, linear, tile);
    if (rest == 0) return;
    tile.sizes[loop] = rest;
    b_.setInsertionPointToStart(branch.elseBlock());
    if (blockEndsEarly(loop)) {
      auto exists =
          mlir::scf::IfOp::create(b_, loc_, compare(arith::CmpIPredicate::slt, tile.origin[loop], extent), false);
      b_.setInsertionPointToStart(exists.thenBlock());
      return grid(level + 1, linear, tile);
    }
    grid(level + 1, linear, tile);
  }

  /// Blocks of the grid: blocks that begin at or after the loop's end are skipped.
  void blocksOfGrid(int level, Value linear, const Tile& tile) {
    if (!walksPart(level)) return grid(level + 1, linear, tile);
    const int loop = plan_.levels[level].loop;
    auto exists = mlir::scf::IfOp::create(
        b_, loc_, compare(arith::CmpIPredicate::slt, tile.origin[loop], nest_.extents[loop]), false);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(exists.thenBlock());
    grid(level + 1, linear, tile);
  }

  /// Iterations of blocks that `level` walks: fewer at the loop's end.
  Value blocksIn(int level, const Tile& tile) {
    const int loop = plan_.levels[level].loop;
    Value walked = constant(plan_.walkedBy(nest_, level));
    if (!walksPart(level)) return walked;
    Value left = arith::SubIOp::create(b_, loc_, constant(nest_.extents[loop]), tile.origin[loop]);
    return arith::MinSIOp::create(b_, loc_, left, walked);
  }

  /// for (i = 0; i < upper; i += step), with the tile moved by i.
  void loopOver(int level, Value upper, Tile tile) {
    auto op = mlir::scf::ForOp::create(b_, loc_, constant(0), upper, constant(plan_.levels[level].step));
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(op.getBody());
    enter(tile, level, op.getInductionVar());
    inner(level + 1, tile);
  }

  /// Levels within a grid point: a loop over full tiles, then the remainder.
  void inner(int level, Tile tile) {
    if (level == plan_.copy_level) copyBlock(tile);
    if (level == static_cast<int>(plan_.levels.size())) return emitTile(b_, nest_, plan_, context_, tile);
    const auto [loop, step] = plan_.levels[level];
    const int64_t extent = nest_.extents[loop];
    // a level of blocks of tiles, or of a reduction
    if (!isTileLevel(level)) return loopOver(level, blocksIn(level, tile), tile);
    const int64_t full = extent / step, rest = extent % step;
    if (!isBlocked(loop)) {
      if (full == 1 && rest == 0) return inner(level + 1, tile);
      if (full > 0) loopOver(level, constant(full * step), tile);
      if (rest == 0) return;
      enter(tile, level, constant(full * step));
      tile.sizes[loop] = rest;
      return inner(level + 1, tile);
    }
    // Full tiles from here to the end of the loop; the block may end earlier.
    Value left = arith::SubIOp::create(b_, loc_, constant(full * step), tile.origin[loop]);
    loopOver(level, arith::MinSIOp::create(b_, loc_, left, constant(plan_.block[loop])), tile);
    if (rest == 0) return;
    auto last = mlir::scf::IfOp::create(
        b_, loc_, compare(arith::CmpIPredicate::sge, tile.origin[loop], extent - plan_.block[loop]), false);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(last.thenBlock());
    enter(tile, level, left);
    tile.sizes[loop] = rest;
    inner(level + 1, tile);
  }

  OpBuilder& b_;
  mlir::Location loc_;
  const Nest& nest_;
  const TilePlan& plan_;
  const EmitContext& context_;
};

}  // namespace

void emitNest(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context, Value lo,
              Value hi) {
  LoopEmitter(builder, nest, plan, context).emit(lo, hi);
}

}  // namespace tessera::compiler::codegen
