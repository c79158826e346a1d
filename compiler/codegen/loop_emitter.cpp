#include "compiler/codegen/loop_emitter.h"

#include "compiler/codegen/micro_kernel.h"
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
        tile.slots.push_back({&input, input.access.root && !input.from ? base(input.access) : nullptr});
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        const bool read = !statement.body()->getArgument(statement.inputs.size() + o).use_empty() && !statement.init[o];
        tile.slots.push_back({&output, statement.stored[o] || read ? base(output.access) : nullptr});
      }
    }
    auto loop = mlir::scf::ForOp::create(b_, loc_, lo, hi, constant(1));
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    grid(0, loop.getInductionVar(), tile);
  }

 private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(b_, loc_, value, 64); }

  Value base(const Access& access) {
    Value pointer = context_.pointer(access.root);
    if (access.offset == 0) return pointer;
    return advance(b_, pointer, memoryType(access.element), access.offset, constant(1));
  }

  int64_t tiles(int loop) const { return (nest_.extents[loop] + plan_.tile[loop] - 1) / plan_.tile[loop]; }

  static void enter(OpBuilder& builder, Tile& tile, int loop, Value iteration) {
    tile.origin[loop] = iteration;
    for (Slot& slot : tile.slots)
      if (slot.pointer)
        slot.pointer = advance(builder, slot.pointer, memoryType(slot.operand->access.element),
                               slot.operand->access.strides[loop], iteration);
  }

  /// Takes `linear` apart into the tile numbers of the grid's loops, the last one fastest.
  void grid(int level, Value linear, Tile tile) {
    if (level == plan_.grid_loops) return inner(level, tile);
    const int loop = plan_.order[level];
    if (tiles(loop) == 1) return grid(level + 1, linear, tile);
    int64_t below = 1;
    for (int next = level + 1; next < plan_.grid_loops; ++next) below *= tiles(plan_.order[next]);
    Value number = linear;
    if (below > 1) {
      number = arith::DivUIOp::create(b_, loc_, linear, constant(below));
      linear = arith::RemUIOp::create(b_, loc_, linear, constant(below));
    }
    const int64_t size = plan_.tile[loop], full = nest_.extents[loop] / size, rest = nest_.extents[loop] % size;
    enter(b_, tile, loop, arith::MulIOp::create(b_, loc_, number, constant(size)));
    if (rest == 0) return grid(level + 1, linear, tile);
    Value is_full = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, number, constant(full));
    auto branch = mlir::scf::IfOp::create(b_, loc_, is_full, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(branch.thenBlock());
    grid(level + 1, linear, tile);
    tile.sizes[loop] = rest;
    b_.setInsertionPointToStart(branch.elseBlock());
    grid(level + 1, linear, tile);
  }

  /// Loops within a grid point: full tiles in a loop, the rest after it.
  void inner(int level, Tile tile) {
    if (level == static_cast<int>(plan_.order.size())) return emitTile(b_, nest_, plan_, context_, tile);
    const int loop = plan_.order[level];
    const int64_t size = plan_.tile[loop], full = nest_.extents[loop] / size, rest = nest_.extents[loop] % size;
    if (full == 1 && rest == 0) return inner(level + 1, tile);
    if (full > 0) {
      auto op = mlir::scf::ForOp::create(b_, loc_, constant(0), constant(full * size), constant(size));
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(op.getBody());
      Tile body = tile;
      enter(b_, body, loop, op.getInductionVar());
      inner(level + 1, body);
    }
    if (rest > 0) {
      enter(b_, tile, loop, constant(full * size));
      tile.sizes[loop] = rest;
      inner(level + 1, tile);
    }
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
