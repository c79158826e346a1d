#include "compiler/backends/cpu/emit/tile_emitter.h"

#include <algorithm>
#include <numeric>

#include "compiler/backends/cpu/emit/body.h"
#include "compiler/backends/cpu/emit/interleave.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "compiler/backends/cpu/tiling/reduction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

TileEmitter::TileEmitter(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
                         const Tile& tile)
    : b_(builder),
      loc_(builder.getUnknownLoc()),
      nest_(nest),
      plan_(plan),
      context_(context),
      tile_(tile),
      memory_(builder, nest, plan, tile),
      fetch_(builder, nest, plan, *context.chip, tile, memory_, points_),
      iterations_(tile.origin.begin(), tile.origin.end()),
      reduction_sizes_(nest.loops(), 1) {
  collectPoints();
  registers_.resize(points_.size());
}

void TileEmitter::emitPoints() {
  for (size_t p = 0; p < points_.size(); ++p) {
    Values old;
    for (size_t o = 0; o < nest_.statements[0].outputs.size(); ++o) old.push_back(initial(p, 0, o, plan_.lanes));
    registers_[p].push_back(evaluate(0, p, plan_.lanes, old));
  }
  finish();
}

void TileEmitter::emitResults(llvm::ArrayRef<Value> results) {
  keep(results);
  finish();
}

void TileEmitter::emitPointByPoint() {
  for (size_t p = 0; p < points_.size(); ++p) {
    for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s) {
      Values old;
      for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o) old.push_back(initial(p, s, o, plan_.lanes));
      registers_[p].push_back(evaluate(s, p, plan_.lanes, old));
      for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
        if (nest_.statements[s].stored[o])
          memory_.store(slotOf(s, true, o), points_[p], plan_.lanes, registers_[p][s][o]);
    }
  }
}

int64_t TileEmitter::rowsTogether(const TileRows& rows) const {
  const auto vectors =
      llvm::count_if(points_, [&](const Point& point) { return point.at[rows.loop] == 0 && rows.takes(point); });
  return std::clamp<int64_t>(sideBySide() / std::max<int64_t>(1, vectors), 1, tile_.sizes[rows.loop]);
}

void TileEmitter::emitRows(const TileRows& rows) {
  // Two loops: full groups of rows, then one group of the rest.
  const int64_t extent = tile_.sizes[rows.loop], together = rowsTogether(rows), rest = extent % together;
  emitRows(rows, constantI64(0), constantI64(extent - rest), together);
  if (rest != 0) emitRows(rows, constantI64(extent - rest), constantI64(extent), rest);
}

void TileEmitter::emitRows(const TileRows& rows, Value from, Value to, int64_t together) {
  const Value init = nest_.statements[0].init[0];
  // A sum from zero needs no addition of its initial value.
  const bool from_zero = init && mlir::matchPattern(init, mlir::m_AnyZeroFloat());
  const bool adds = !from_zero && !(init && mlir::matchPattern(init, mlir::m_Zero()));
  const Values pointers = memory_.pointers();
  const Value origin = iterations_[rows.loop];
  auto loop = mlir::scf::ForOp::create(b_, loc_, from, to, constantI64(together));
  loop->setAttr(kInterleaved, b_.getUnitAttr());
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(loop.getBody());
  const Value row = loop.getInductionVar();
  // Cached loads are of another row.
  memory_.forget();
  memory_.enter(rows.loop, row);
  iterations_[rows.loop] = origin ? arith::AddIOp::create(b_, loc_, origin, row).getResult() : row;
  llvm::SmallVector<size_t> points;
  for (size_t p = 0; p < points_.size(); ++p) {
    if (points_[p].at[rows.loop] >= together || !rows.takes(points_[p])) continue;
    points.push_back(p);
    Value result = rows.sum(row, points_[p]);
    if (adds) result = combine(0, initial(p, 0, 0, plan_.lanes), result);
    registers_[p].assign(1, Values{result});
  }
  finish(points, plan_.lanes);
  memory_.forget();
  memory_.restore(pointers);
  iterations_[rows.loop] = origin;
}

/// Number of vectors whose followers are interleaved: a chain of a dozen instructions is longer than the core's
/// out-of-order window.
int64_t TileEmitter::sideBySide() const { return chip().vectorRegisters() >= 32 ? 4 : 2; }

int TileEmitter::slotOf(int statement, bool output, size_t index) const {
  size_t slot = 0;
  for (int s = 0; s < statement; ++s) slot += nest_.statements[s].inputs.size() + nest_.statements[s].outputs.size();
  if (output) slot += nest_.statements[statement].inputs.size();
  return static_cast<int>(slot + index);
}

void TileEmitter::collectPoints() {
  // The points in the plan's order: each loop in plan_.points multiplies them by its iterations in the tile.
  points_.push_back({llvm::SmallVector<int64_t>(nest_.loops(), 0), plan_.lanes});
  for (int loop : plan_.points) {
    std::vector<Point> expanded;
    const bool vector = loop == plan_.vector_loop;
    const int64_t step = vector ? plan_.lanes : 1;
    for (const Point& point : points_)
      for (int64_t i = 0; i < tile_.sizes[loop]; i += step) {
        expanded.push_back(point);
        expanded.back().at[loop] = i;
        if (vector) expanded.back().active = static_cast<int>(std::min<int64_t>(step, tile_.sizes[loop] - i));
      }
    points_ = std::move(expanded);
  }
}

/// Stores the first statement's results in the registers that followers read.
void TileEmitter::keep(llvm::ArrayRef<Value> accumulators) {
  const size_t outputs = nest_.statements[0].outputs.size();
  for (size_t p = 0; p < points_.size(); ++p)
    registers_[p].emplace_back(accumulators.begin() + p * outputs, accumulators.begin() + (p + 1) * outputs);
}

/// Evaluates followers on the values in registers, then stores. Points are processed a few at a time, unless some store
/// is transposed and needs all of them.
void TileEmitter::finish() {
  memory_.forget();
  const int lanes = plan_.horizontal ? 1 : plan_.lanes;
  llvm::SmallVector<size_t> all(points_.size());
  std::iota(all.begin(), all.end(), 0);
  // Groups limit the live values: followers of all points at once would need more registers than there are.
  const bool follows = nest_.statements.size() > 1 && lanes > 1;
  if (!follows || storesTransposed(lanes) || all.size() < 2) return finish(all, lanes);
  for (llvm::ArrayRef<size_t> rest = all; !rest.empty();) {
    const auto group = rest.take_front(sideBySide());
    rest = rest.drop_front(group.size());
    auto region = mlir::scf::ExecuteRegionOp::create(b_, loc_, mlir::TypeRange());
    region->setAttr(kInterleaved, b_.getUnitAttr());
    OpBuilder::InsertionGuard guard(b_);
    b_.createBlock(&region.getRegion());
    finish(group, lanes);
    memory_.forget();
    mlir::scf::YieldOp::create(b_, loc_);
  }
}

/// The same for some of the points.
void TileEmitter::finish(llvm::ArrayRef<size_t> points, int lanes) {
  for (int s = 1; s < static_cast<int>(nest_.statements.size()); ++s)
    for (size_t p : points) {
      Values old;
      for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o) old.push_back(initial(p, s, o, lanes));
      registers_[p].push_back(evaluate(s, p, lanes, old));
    }
  for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s)
    for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
      // A streamed output was stored while the reduction ran.
      if (nest_.statements[s].stored[o] && (s > 0 || !streamed(o))) storeAll(s, o, lanes, points);
}

bool TileEmitter::storesTransposed(int lanes) {
  for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s)
    for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
      if (nest_.statements[s].stored[o] && memory_.transposedStore(slotOf(s, true, o), lanes) >= 0) return true;
  return false;
}

void TileEmitter::storeAll(int statement, size_t output, int lanes, llvm::ArrayRef<size_t> points) {
  const int slot = slotOf(statement, true, output), along = memory_.transposedStore(slot, lanes);
  if (along >= 0 && points.size() == points_.size()) {
    Values values;
    for (const auto& registers : registers_) values.push_back(registers[statement][output]);
    return memory_.storeTransposed(slot, points_, along, values);
  }
  for (size_t p : points) memory_.store(slot, points_[p], lanes, registers_[p][statement][output]);
}

BodyContext TileEmitter::bodyContext(int statement, const Point& point, int lanes) {
  return BodyContext{b_, lanes, context_.chip->fusesMultiplyAdd(),
                     [this, statement, &point, lanes](int dim) { return indexOf(statement, dim, point, lanes); },
                     context_.outer};
}

BodyContext TileEmitter::plain(int lanes) { return BodyContext{b_, lanes, false, nullptr, context_.outer}; }

Value TileEmitter::constantI64(int64_t value) { return arith::ConstantIntOp::create(b_, loc_, value, 64); }

Value TileEmitter::indexOf(int statement, int dim, const Point& point, int lanes) {
  const auto& weights = nest_.statements[statement].index_weights[dim];
  const Statement& placed = nest_.statements[statement];
  Value sum = constantI64(0);
  int64_t constant = placed.index_start.empty() ? 0 : placed.index_start[dim];
  if (!placed.index_slice.empty())
    for (auto [weight, number] : llvm::zip(placed.index_slice[dim], context_.slice))
      if (weight != 0)
        sum = arith::AddIOp::create(b_, loc_, sum, arith::MulIOp::create(b_, loc_, number, constantI64(weight)));
  for (int loop = 0; loop < nest_.loops(); ++loop) {
    if (weights[loop] == 0) continue;
    constant += weights[loop] * (point.at[loop] + memory_.offset(loop));
    if (!iterations_[loop]) continue;
    sum = arith::AddIOp::create(b_, loc_, sum,
                                arith::MulIOp::create(b_, loc_, iterations_[loop], constantI64(weights[loop])));
  }
  sum = arith::AddIOp::create(b_, loc_, sum, constantI64(constant));
  Value index = arith::IndexCastOp::create(b_, loc_, b_.getIndexType(), sum);
  if (lanes == 1) return index;
  auto type = mlir::VectorType::get({lanes}, b_.getIndexType());
  index = mlir::vector::BroadcastOp::create(b_, loc_, type, index);
  const int64_t weight = plan_.vector_loop >= 0 ? weights[plan_.vector_loop] : 0;
  if (weight == 0) return index;
  llvm::SmallVector<mlir::Attribute> lane;
  for (int i = 0; i < lanes; ++i) lane.push_back(b_.getIndexAttr(i * weight));
  Value steps = arith::ConstantOp::create(b_, loc_, mlir::DenseElementsAttr::get(type, lane));
  return arith::AddIOp::create(b_, loc_, index, steps);
}

/// The value of an output before its statement runs; null when the body does not read it.
Value TileEmitter::initial(size_t p, int statement, size_t output, int lanes) {
  const Statement& s = nest_.statements[statement];
  mlir::BlockArgument old = s.body()->getArgument(s.inputs.size() + output);
  if (s.init[output]) return plain(lanes).broadcast(context_.outer(s.init[output]));
  if (old.use_empty()) return plain(lanes).constant(b_.getZeroAttr(old.getType()));
  memory_.forget();  // earlier statements may have written it
  return memory_.load(slotOf(statement, true, output), points_[p], lanes);
}

TileEmitter::Values TileEmitter::evaluate(int statement, size_t p, int lanes, llvm::ArrayRef<Value> old) {
  const Statement& s = nest_.statements[statement];
  Values arguments;
  for (size_t i = 0; i < s.inputs.size(); ++i) arguments.push_back(input(statement, i, p, lanes));
  arguments.append(old.begin(), old.end());
  if (s.step && s.step->isByLane() && lanes == s.step->lanes()) {
    // An instruction that may saturate has a fallback, used for steps whose products could saturate.
    const ProductInstructionStep* fallback = use_fallback_ ? s.step->fallback() : nullptr;
    return {(fallback ? fallback : s.step.get())->emit(b_, arguments[0], arguments[1], arguments[2])};
  }
  return emitBody(bodyContext(statement, points_[p], lanes), *s.body(), arguments);
}

Value TileEmitter::input(int statement, size_t index, size_t p, int lanes) {
  const Operand& operand = nest_.statements[statement].inputs[index];
  if (operand.from) return registers_[p][operand.from->statement][operand.from->output];
  if (!operand.access.root) return plain(lanes).broadcast(context_.outer(operand.scalar));
  return memory_.load(slotOf(statement, false, index), points_[p], lanes);
}

void emitTile(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
              const Tile& tile) {
  TileEmitter emitter(builder, nest, plan, context, tile);
  plan.kernel->emit(emitter);
}

}  // namespace tessera::compiler::codegen
