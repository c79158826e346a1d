#include "compiler/backends/cpu/emit/tile_prefetch.h"

#include "compiler/backends/cpu/tiling/loop_order.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// Cache levels of a prefetch (LLVM's "locality").
constexpr int kToL1 = 3, kToL2 = 2;
/// Fixed-point binary digits of "lines per step".
constexpr int kScale = 20;

bool inMemory(const Operand& operand) { return operand.access.root && !operand.from; }

/// Iterations of `loop` in one of its blocks.
int64_t withinBlock(const Nest& nest, const TilePlan& plan, int loop) {
  return plan.block[loop] > 0 ? plan.block[loop] : nest.extents[loop];
}

/// The vectors of one tile of columns as runs of contiguous elements.
struct ContiguousRuns {
  int64_t count = 1;
  int64_t length = 0;    ///< elements of one
  int64_t distance = 0;  ///< elements from one to the next
};

/// Nothing when the steps of the reduction are not contiguous, as in a matrix that is not packed.
std::optional<ContiguousRuns> contiguousRunsOf(const Nest& nest, const TilePlan& plan, const Access& access,
                                               llvm::ArrayRef<Point> points) {
  llvm::SmallVector<int64_t> starts;
  for (const Point& point : points) {
    int64_t start = 0;
    for (int loop = 0; loop < nest.loops(); ++loop) start += access.strides[loop] * point.at[loop];
    // Rows of a tile share the vectors of its columns.
    if (!llvm::is_contained(starts, start)) starts.push_back(start);
  }
  llvm::sort(starts);
  const auto vectors = static_cast<int64_t>(starts.size());
  const int64_t step = access.strides[plan.reductions.back()];
  int64_t steps = 1;
  for (int loop : llvm::reverse(plan.reductions)) {
    if (access.strides[loop] != step * steps) return std::nullopt;
    steps *= withinBlock(nest, plan, loop);
  }
  const int64_t distance = vectors > 1 ? starts[1] - starts[0] : 0;
  for (int64_t v = 1; v < vectors; ++v)
    if (starts[v] - starts[v - 1] != distance) return std::nullopt;
  // All vectors of a step are contiguous: one run. Otherwise one run for each vector, if its steps are contiguous.
  if (step == vectors * plan.lanes && (vectors == 1 || distance == plan.lanes))
    return ContiguousRuns{1, steps * step, 0};
  if (step == plan.lanes) return ContiguousRuns{vectors, steps * step, distance};
  return std::nullopt;
}

/// The work that the tiles of rows that use one panel divide among them: the vectors of the next tile of columns.
struct PanelShare {
  int slot = -1, column = -1;
  llvm::SmallVector<int> rows;  ///< loops of the tiles that use the same panel
  int64_t tiles = 1;
  ContiguousRuns runs;
};

/// Nothing if there is no next panel, or too few tiles to prefetch it.
std::optional<PanelShare> shareOfPanel(const Nest& nest, const TilePlan& plan, llvm::ArrayRef<Point> points) {
  const auto& inputs = nest.statements[0].inputs;
  PanelShare share;
  for (auto [i, operand] : llvm::enumerate(inputs))
    if (inMemory(operand) && operand.access.strides[plan.vector_loop] == 1) share.slot = static_cast<int>(i);
  if (share.slot < 0) return std::nullopt;
  for (int loop : plan.order) {
    if (ceilDiv(nest.extents[loop], plan.tile[loop]) < 2) continue;
    if (!varies(inputs[share.slot], loop)) {
      share.rows.push_back(loop);
      continue;
    }
    // The innermost column loop: its next iteration reads the next panel. Rows outside of it do not share this panel.
    share.column = loop;
    share.rows.clear();
  }
  if (share.column < 0) return std::nullopt;
  for (int loop : share.rows) share.tiles *= ceilDiv(withinBlock(nest, plan, loop), plan.tile[loop]);
  const auto runs = contiguousRunsOf(nest, plan, inputs[share.slot].access, points);
  // Each tile prefetches a part of one run.
  if (!runs || share.tiles < 2 || share.tiles < runs->count) return std::nullopt;
  share.runs = *runs;
  return share;
}

}  // namespace

Value TilePrefetch::constant(int64_t value) { return arith::ConstantIntOp::create(b_, b_.getUnknownLoc(), value, 64); }

int64_t TilePrefetch::lineOf(mlir::Type element) const { return chip_.near().line_bytes * 8 / elementBits(element); }

/// The number of this tile among those of its block, last loop fastest.
Value TilePrefetch::tileInBlock(llvm::ArrayRef<int> loops) {
  const mlir::Location loc = b_.getUnknownLoc();
  Value number;
  for (int loop : loops) {
    const int64_t count = ceilDiv(withinBlock(nest_, plan_, loop), plan_.tile[loop]);
    if (number) number = arith::MulIOp::create(b_, loc, number, constant(count));
    Value position = tile_.origin[loop];
    if (!position) continue;
    if (plan_.block[loop] > 0) position = arith::RemUIOp::create(b_, loc, position, constant(plan_.block[loop]));
    position = arith::DivUIOp::create(b_, loc, position, constant(plan_.tile[loop]));
    number = number ? arith::AddIOp::create(b_, loc, number, position).getResult() : position;
  }
  return number ? number : constant(0);
}

/// Steps of the reduction in one of its blocks, and in one body of unrolled steps.
std::pair<int64_t, int64_t> TilePrefetch::stepsAndBody() const {
  int64_t steps = 1, body = 1;
  for (int loop : plan_.reductions) {
    steps *= withinBlock(nest_, plan_, loop);
    body *= std::min(plan_.tile[loop], nest_.extents[loop]);
  }
  return {steps, body};
}

void TilePrefetch::startPanel() {
  const mlir::Location loc = b_.getUnknownLoc();
  const auto share = shareOfPanel(nest_, plan_, points_);
  // The last tile of columns has no next one, unless it is a whole tile: then the panel of the next reduction block may
  // follow.
  if (!share || tile_.sizes[share->column] != plan_.tile[share->column]) return;
  const Access& access = nest_.statements[0].inputs[share->slot].access;
  const auto [steps, body] = stepsAndBody();
  const int64_t line = lineOf(access.element), sharers = share->tiles / share->runs.count;
  // Whole lines, so that no line is prefetched by two tiles.
  const int64_t elements = ceilDiv(ceilDiv(share->runs.length, sharers), line) * line;
  share_step_ = ceilDiv(elements, steps);
  // Lines are fetched in pairs, so a share that is slightly larger than its number of lines is still covered.
  share_lines_ = std::max<int64_t>(1, (share_step_ * body + line / 2) / line);
  element_ = memoryType(access.element);
  Value position = tileInBlock(share->rows);
  share_ = advance(b_, memory_.pointer(share->slot), element_,
                   access.between(share->column) * plan_.tile[share->column], constant(1));
  if (share->runs.count > 1) {
    Value run = arith::DivUIOp::create(b_, loc, position, constant(sharers));
    run = arith::MinSIOp::create(b_, loc, run, constant(share->runs.count - 1));
    share_ = advance(b_, share_, element_, share->runs.distance, run);
    position = arith::SubIOp::create(b_, loc, position, arith::MulIOp::create(b_, loc, run, constant(sharers)));
  }
  // If the runs do not divide the tiles evenly, the remaining tiles prefetch the last share again.
  position = arith::MinSIOp::create(b_, loc, position, constant(sharers - 1));
  share_ = advance(b_, share_, element_, elements, position);
}

void TilePrefetch::panel(Value step) {
  if (!share_) return;
  Value from = advance(b_, share_, element_, share_step_, step);
  const int64_t line = lineOf(element_);
  for (int64_t i = 0; i < share_lines_; ++i)
    mlir::LLVM::Prefetch::create(b_, b_.getUnknownLoc(), memory_.at(from, element_, i * line), /*rw=*/0, kToL2,
                                 /*cache=*/1);
}

/// Returns the address at which this slice's part of the next block begins. The slices that share a block divide it
/// into parts of `elements` elements. After the last block comes the first one.
Value TilePrefetch::partOf(const NextBlock& block, int64_t elements, const EmitContext& context) {
  const mlir::Location loc = b_.getUnknownLoc();
  const mlir::Type element = memoryType(block.block.element);
  Value first = advance(b_, context.pointer(block.block.root), element, block.block.offset, constant(1));
  // Increments the slice numbers: one more in the last loop, with a carry into the outer loops.
  Value carry = constant(1);
  for (int v = block.loop; v >= 0; --v) {
    Value next = arith::AddIOp::create(b_, loc, context.slice[v], carry);
    Value over = arith::CmpIOp::create(b_, loc, arith::CmpIPredicate::eq, next, constant(block.counts[v]));
    next = arith::SelectOp::create(b_, loc, over, constant(0), next);
    first = advance(b_, first, element, block.block.slice[v], next);
    carry = arith::ExtUIOp::create(b_, loc, b_.getI64Type(), over);
  }
  Value slice = constant(0);
  for (size_t v = block.loop + 1; v < block.counts.size(); ++v) {
    slice = arith::MulIOp::create(b_, loc, slice, constant(block.counts[v]));
    slice = arith::AddIOp::create(b_, loc, slice, context.slice[v]);
  }
  return advance(b_, first, element, elements, slice);
}

void TilePrefetch::startNextBlocks(const EmitContext& context) {
  const auto [steps, body] = stepsAndBody();
  int64_t tiles = 1;
  for (int loop : plan_.order) tiles *= ceilDiv(nest_.extents[loop], plan_.tile[loop]);
  for (const NextBlock& block : plan_.next_blocks) {
    const int64_t line = lineOf(block.block.element);
    auto lines = [&](int64_t elements) { return ceilDiv(elements, line) * line; };
    // Slices of the inner loops read the same block: each prefetches a part of the next one.
    int64_t slices = 1;
    for (int64_t count : llvm::ArrayRef<int64_t>(block.counts).drop_front(block.loop + 1)) slices *= count;
    const int64_t part = lines(ceilDiv(block.elements, slices)), share = lines(ceilDiv(part, tiles)),
                  step = ceilDiv(share, steps);
    const mlir::Type element = memoryType(block.block.element);
    Value first = advance(b_, partOf(block, part, context), element, share, tileInBlock(plan_.order));
    next_blocks_.push_back({first, element, step, ceilDiv(step * body, line)});
  }
}

void TilePrefetch::nextBlocks(Value step) {
  for (const Share& share : next_blocks_) {
    Value from = advance(b_, share.first, share.element, share.step, step);
    const int64_t line = lineOf(share.element);
    for (int64_t i = 0; i < share.lines; ++i)
      mlir::LLVM::Prefetch::create(b_, b_.getUnknownLoc(), memory_.at(from, share.element, i * line), /*rw=*/0, kToL2,
                                   /*cache=*/1);
  }
}

void TilePrefetch::startNextSlice(const EmitContext& context) {
  const mlir::Location loc = b_.getUnknownLoc();
  const auto [steps, body] = stepsAndBody();
  int64_t tiles = 1;
  for (int loop : plan_.order) tiles *= ceilDiv(nest_.extents[loop], plan_.tile[loop]);
  Value number;
  for (int loop : plan_.order) {
    if (number)
      number = arith::MulIOp::create(b_, loc, number, constant(ceilDiv(nest_.extents[loop], plan_.tile[loop])));
    if (!tile_.origin[loop]) continue;
    Value position = arith::DivUIOp::create(b_, loc, tile_.origin[loop], constant(plan_.tile[loop]));
    number = number ? arith::AddIOp::create(b_, loc, number, position).getResult() : position;
  }
  steps_before_ = number ? arith::MulIOp::create(b_, loc, number, constant(steps)).getResult() : constant(0);
  for (const PrefetchedRuns& runs : plan_.next_slice) {
    // Lines per body such that all runs are covered after the last step of the last tile.
    const int64_t lines = std::min(runs.lines, ceilDiv(runs.count() * runs.lines * body, tiles * steps));
    const int64_t groups = ceilDiv(runs.lines, lines);
    Wanted wanted{context.pointer(runs.access.root), &runs, lines, groups,
                  // Fixed point: groups of lines per step, usually less than one.
                  (runs.count() * groups << kScale) / (tiles * steps)};
    const mlir::Type element = memoryType(runs.access.element);
    for (auto [stride, slice] : llvm::zip(runs.access.slice, context.slice))
      wanted.first = advance(b_, wanted.first, element, stride, slice);
    wanted.first = advance(b_, wanted.first, element, runs.access.offset + runs.access.slice.back(), constant(1));
    wanted_.push_back(wanted);
  }
}

void TilePrefetch::nextSlice(Value step) {
  const mlir::Location loc = b_.getUnknownLoc();
  if (wanted_.empty()) return;
  Value done = arith::AddIOp::create(b_, loc, steps_before_, step);
  for (const Wanted& wanted : wanted_) {
    const mlir::Type element = memoryType(wanted.runs->access.element);
    const int64_t line = lineOf(element);
    Value group = arith::MulIOp::create(b_, loc, done, constant(wanted.scaled));
    group = arith::ShRUIOp::create(b_, loc, group, constant(kScale));
    Value address = wanted.first;
    // `group` is the number of the group of lines. Each dimension of the next slice takes its digit of it (remainder)
    // and leaves the rest (quotient), so consecutive steps walk the slice in order without a table.
    auto take = [&](int64_t count, int64_t stride, bool last) {
      Value position = last ? group : arith::RemUIOp::create(b_, loc, group, constant(count)).getResult();
      if (!last) group = arith::DivUIOp::create(b_, loc, group, constant(count));
      address = advance(b_, address, element, stride, position);
    };
    take(wanted.groups, wanted.lines * line, false);
    for (auto [n, run] : llvm::enumerate(wanted.runs->apart))
      take(run.second, run.first, n + 1 == wanted.runs->apart.size());
    for (int64_t i = 0; i < wanted.lines; ++i)
      mlir::LLVM::Prefetch::create(b_, loc, memory_.at(address, element, i * line), /*rw=*/0, kToL2, /*cache=*/1);
  }
}

/// Prefetches the lines that the points of the tile touch in a slot, `further` elements after their current position.
void TilePrefetch::lines(int slot, int64_t further) {
  const Access& access = memory_.access(slot);
  const int64_t along = access.strides[plan_.vector_loop];
  if (!memory_.pointer(slot) || (along != 1 && along != 0)) return;
  const mlir::Type memory = memoryType(access.element);
  llvm::SmallVector<int64_t> fetched;
  for (const Point& point : points_) {
    const int64_t offset = memory_.offsetAt(access, point) + further;
    if (llvm::is_contained(fetched, offset)) continue;
    fetched.push_back(offset);
    mlir::LLVM::Prefetch::create(b_, b_.getUnknownLoc(), memory_.at(memory_.pointer(slot), memory, offset),
                                 /*rw=*/0, kToL1, /*cache=*/1);
  }
}

void TilePrefetch::ahead() {
  const int step = plan_.reductions.back();
  for (auto [slot, operand] : llvm::enumerate(nest_.statements[0].inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 1)
      lines(static_cast<int>(slot), plan_.ahead * operand.access.strides[step]);
}

void TilePrefetch::copied() {
  for (const BlockCopy& copy : plan_.copies) {
    if (copy.ahead == 0) continue;
    const Access& access = memory_.access(copy.input);
    const mlir::Type element = memoryType(access.element);
    const int64_t step = access.strides[plan_.reductions.back()], line = lineOf(element);
    for (int64_t i = 0; i < ceilDiv(step * plan_.tile[plan_.reductions.back()], line); ++i)
      mlir::LLVM::Prefetch::create(b_, b_.getUnknownLoc(),
                                   memory_.at(memory_.pointer(copy.input), element, copy.ahead * step + i * line),
                                   /*rw=*/0, kToL1, /*cache=*/1);
  }
}

void TilePrefetch::rows(int loop) {
  for (auto [slot, operand] : llvm::enumerate(nest_.statements[0].inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 0)
      lines(static_cast<int>(slot), operand.access.strides[loop]);
}

void TilePrefetch::startResults() {
  const auto [steps, body] = stepsAndBody();
  const int64_t bodies = std::max<int64_t>(1, steps / body);
  int slot = 0;
  for (const Statement& statement : nest_.statements) {
    slot += static_cast<int>(statement.inputs.size());
    for (size_t o = 0; o < statement.outputs.size(); ++o, ++slot) {
      const Access& access = memory_.access(slot);
      const int64_t along = access.strides[plan_.vector_loop];
      if (!statement.stored[o] || !memory_.pointer(slot) || (along != 1 && along != 0)) continue;
      ResultLines lines{memory_.pointer(slot), memoryType(access.element), {}, 0, 1};
      for (const Point& point : points_)
        if (const int64_t offset = memory_.offsetAt(access, point); !llvm::is_contained(lines.offsets, offset))
          lines.offsets.push_back(offset);
      llvm::sort(lines.offsets);
      // As few lines per body as possible while all are prefetched in time, in groups of equal distance.
      const auto count = static_cast<int64_t>(lines.offsets.size());
      for (int64_t group = ceilDiv(count, bodies); group < count; ++group) {
        // Only equal groups can be addressed by one distance.
        if (count % group != 0) continue;
        const int64_t distance = lines.offsets[group] - lines.offsets[0];
        bool equal = true;
        for (int64_t i = group; i < count; ++i) equal &= lines.offsets[i] - lines.offsets[i - group] == distance;
        if (!equal) continue;
        lines.distance = distance;
        lines.bodies = count / group;
        lines.offsets.resize(group);
        break;
      }
      results_.push_back(std::move(lines));
    }
  }
}

void TilePrefetch::results(Value step) {
  const mlir::Location loc = b_.getUnknownLoc();
  const int64_t body = stepsAndBody().second;
  for (const ResultLines& lines : results_) {
    Value due = arith::CmpIOp::create(b_, loc, arith::CmpIPredicate::slt, step, constant(lines.bodies * body));
    auto branch = mlir::scf::IfOp::create(b_, loc, due, /*withElseRegion=*/false);
    mlir::OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(branch.thenBlock());
    Value number = step;
    if (body > 1) number = arith::DivUIOp::create(b_, loc, step, constant(body));
    Value from = advance(b_, lines.first, lines.element, lines.distance, number);
    for (int64_t offset : lines.offsets)
      mlir::LLVM::Prefetch::create(b_, loc, memory_.at(from, lines.element, offset), /*rw=*/1, kToL1, /*cache=*/1);
  }
}

bool prefetchesPanel(const Nest& nest, const TilePlan& plan) {
  // The points of a full tile, as the emitter unrolls them: a panel is fetched only if they share its rows evenly.
  std::vector<Point> points{{llvm::SmallVector<int64_t>(nest.loops(), 0), plan.lanes}};
  for (int loop : plan.points) {
    std::vector<Point> expanded;
    for (const Point& point : points)
      for (int64_t i = 0; i < plan.tile[loop]; i += loop == plan.vector_loop ? plan.lanes : 1) {
        expanded.push_back(point);
        expanded.back().at[loop] = i;
      }
    points = std::move(expanded);
  }
  return shareOfPanel(nest, plan, points).has_value();
}

}  // namespace tessera::compiler::codegen
