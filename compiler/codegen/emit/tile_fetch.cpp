#include "compiler/codegen/emit/tile_fetch.h"

#include "compiler/codegen/tiling/loop_order.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// Levels that a prefetch names (LLVM's "locality").
constexpr int kToL1 = 3, kToL2 = 2;
constexpr int64_t kLine = 64;

bool inMemory(const Operand& operand) { return operand.access.root && !operand.from; }

/// Iterations of `loop` that run between two of the loops around its block.
int64_t withinBlock(const Nest& nest, const TilePlan& plan, int loop) {
  return plan.block[loop] > 0 ? plan.block[loop] : nest.extents[loop];
}

/// Where the vectors of one tile of columns lie: pieces of contiguous elements.
struct Pieces {
  int64_t count = 1;
  int64_t length = 0;    ///< elements of one
  int64_t distance = 0;  ///< elements from one to the next
};

/// Nothing when the steps of the reduction are not neighbours, as in a matrix that is no panel.
std::optional<Pieces> piecesOf(const Nest& nest, const TilePlan& plan, const Access& access,
                               llvm::ArrayRef<Point> points) {
  llvm::SmallVector<int64_t> starts;
  for (const Point& point : points) {
    int64_t start = 0;
    for (int loop = 0; loop < nest.loops(); ++loop) start += access.strides[loop] * point.at[loop];
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
  if (step == vectors * plan.lanes && (vectors == 1 || distance == plan.lanes)) return Pieces{1, steps * step, 0};
  if (step == plan.lanes) return Pieces{vectors, steps * step, distance};
  return std::nullopt;
}

}  // namespace

Value TileFetch::constant(int64_t value) { return arith::ConstantIntOp::create(b_, b_.getUnknownLoc(), value, 64); }

/// The number of this tile among those of its block, the last loop fastest.
Value TileFetch::tileInBlock(llvm::ArrayRef<int> loops) {
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

void TileFetch::startPanel() {
  const mlir::Location loc = b_.getUnknownLoc();
  const auto& inputs = nest_.statements[0].inputs;
  int slot = -1, column = -1;
  for (auto [i, operand] : llvm::enumerate(inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 1) slot = static_cast<int>(i);
  if (slot < 0) return;
  const Access& access = inputs[slot].access;
  llvm::SmallVector<int> rows;  // loops of the tiles that use one and the same panel
  for (int loop : plan_.order) {
    if (ceilDiv(nest_.extents[loop], plan_.tile[loop]) < 2) continue;
    if (!varies(inputs[slot], loop)) {
      rows.push_back(loop);
      continue;
    }
    column = loop;
    rows.clear();
  }
  // The last tile of columns has no next one, unless it is a whole tile: then
  // the next reduction block's may follow.
  if (column < 0 || tile_.sizes[column] != plan_.tile[column]) return;
  int64_t tiles = 1;
  for (int loop : rows) tiles *= ceilDiv(withinBlock(nest_, plan_, loop), plan_.tile[loop]);
  const auto pieces = piecesOf(nest_, plan_, access, points_);
  if (!pieces || tiles < 2 || tiles < pieces->count) return;
  const int64_t line = kLine * 8 / elementBits(access.element), sharers = tiles / pieces->count;
  const int64_t share = ceilDiv(ceilDiv(pieces->length, sharers), line) * line;
  const mlir::Type element = memoryType(access.element);
  Value position = tileInBlock(rows);
  Value first = advance(b_, memory_.pointer(slot), element, access.between(column) * plan_.tile[column], constant(1));
  if (pieces->count > 1) {
    Value piece = arith::DivUIOp::create(b_, loc, position, constant(sharers));
    piece = arith::MinSIOp::create(b_, loc, piece, constant(pieces->count - 1));
    first = advance(b_, first, element, pieces->distance, piece);
    position = arith::SubIOp::create(b_, loc, position, arith::MulIOp::create(b_, loc, piece, constant(sharers)));
  }
  // A few tiles are left over when the pieces do not divide them: they ask
  // again for the last share.
  position = arith::MinSIOp::create(b_, loc, position, constant(sharers - 1));
  this->share(advance(b_, first, element, share, position), element, share);
}

/// The block of the next number of its slice loop, in equal parts for the slices that share it and their tiles; after
/// the last number of all the first one's.
void TileFetch::startUpcoming(const Upcoming& upcoming) {
  const mlir::Location loc = b_.getUnknownLoc();
  const mlir::Type element = memoryType(upcoming.block.element);
  const int64_t line = kLine * 8 / elementBits(upcoming.block.element);
  auto whole = [&](int64_t elements) { return ceilDiv(elements, line) * line; };
  int64_t slices = 1, tiles = 1;
  const auto inner = llvm::ArrayRef<int64_t>(upcoming.counts).drop_front(upcoming.loop + 1);
  for (int64_t count : inner) slices *= count;
  for (int loop : plan_.order) tiles *= ceilDiv(nest_.extents[loop], plan_.tile[loop]);
  const int64_t part = whole(ceilDiv(upcoming.elements, slices)), share = whole(ceilDiv(part, tiles));
  Value first = advance(b_, context_.pointer(upcoming.block.root), element, upcoming.block.offset, constant(1));
  // One further in the last loop, which carries into those outside.
  Value carry = constant(1);
  for (int v = upcoming.loop; v >= 0; --v) {
    Value next = arith::AddIOp::create(b_, loc, context_.slice[v], carry);
    Value over = arith::CmpIOp::create(b_, loc, arith::CmpIPredicate::eq, next, constant(upcoming.counts[v]));
    next = arith::SelectOp::create(b_, loc, over, constant(0), next);
    first = advance(b_, first, element, upcoming.block.slice[v], next);
    carry = arith::ExtUIOp::create(b_, loc, b_.getI64Type(), over);
  }
  Value slice = constant(0);
  for (auto [i, count] : llvm::enumerate(inner)) {
    slice = arith::MulIOp::create(b_, loc, slice, constant(count));
    slice = arith::AddIOp::create(b_, loc, slice, context_.slice[upcoming.loop + 1 + i]);
  }
  first = advance(b_, first, element, part, slice);
  this->share(advance(b_, first, element, share, tileInBlock(plan_.order)), element, share);
}

/// `elements` from `first` on, over the steps of this tile.
void TileFetch::share(Value first, mlir::Type element, int64_t elements) {
  int64_t steps = 1, body = 1;
  for (int loop : plan_.reductions) {
    steps *= withinBlock(nest_, plan_, loop);
    body *= std::min(plan_.tile[loop], nest_.extents[loop]);
  }
  const int64_t step = ceilDiv(elements, steps);
  shares_.push_back({first, element, step, ceilDiv(step * body, kLine * 8 / element.getIntOrFloatBitWidth())});
}

void TileFetch::start() {
  if (plan_.fetch_panel) startPanel();
  for (const Upcoming& upcoming : plan_.upcoming) startUpcoming(upcoming);
}

void TileFetch::shares(Value step) {
  for (const Share& share : shares_) {
    Value from = advance(b_, share.first, share.element, share.step, step);
    const int64_t line = kLine * 8 / share.element.getIntOrFloatBitWidth();
    for (int64_t i = 0; i < share.lines; ++i)
      mlir::LLVM::Prefetch::create(b_, b_.getUnknownLoc(), memory_.at(from, share.element, i * line), /*rw=*/0, kToL2,
                                   /*cache=*/1);
  }
}

/// Asks for the lines that the points of the tile touch in a slot, `further` elements from where they are now.
void TileFetch::lines(int slot, int64_t further, bool to_write) {
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
                                 to_write ? 1 : 0, kToL1, /*cache=*/1);
  }
}

void TileFetch::ahead() {
  const int step = plan_.reductions.back();
  for (auto [slot, operand] : llvm::enumerate(nest_.statements[0].inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 1)
      lines(static_cast<int>(slot), plan_.ahead * operand.access.strides[step], false);
}

void TileFetch::rows(int loop) {
  for (auto [slot, operand] : llvm::enumerate(nest_.statements[0].inputs))
    if (inMemory(operand) && operand.access.strides[plan_.vector_loop] == 0)
      lines(static_cast<int>(slot), operand.access.strides[loop], false);
}

void TileFetch::results() {
  int slot = 0;
  for (const Statement& statement : nest_.statements) {
    slot += static_cast<int>(statement.inputs.size());
    for (size_t o = 0; o < statement.outputs.size(); ++o, ++slot)
      if (statement.stored[o]) lines(slot, 0, true);
  }
}

}  // namespace tessera::compiler::codegen
