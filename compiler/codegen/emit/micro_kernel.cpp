#include "compiler/codegen/emit/micro_kernel.h"

#include <map>

#include "compiler/codegen/emit/body.h"
#include "compiler/codegen/emit/reduction.h"
#include "compiler/codegen/emit/separable.h"
#include "compiler/codegen/emit/side_by_side.h"
#include "compiler/codegen/emit/tile_fetch.h"
#include "compiler/codegen/emit/tile_memory.h"
#include "compiler/codegen/instruction/grouped_product.h"
#include "compiler/codegen/tiling/contraction_plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

class TileEmitter {
 public:
  TileEmitter(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context, const Tile& tile)
      : b_(builder),
        loc_(builder.getUnknownLoc()),
        nest_(nest),
        plan_(plan),
        context_(context),
        tile_(tile),
        memory_(builder, nest, plan, tile),
        fetch_(builder, nest, plan, *context.chip, tile, memory_, points_) {
    for (int loop = 0; loop < nest.loops(); ++loop) {
      iterations_.push_back(tile.origin[loop]);
    }
  }

  void emit() {
    collectPoints();
    const Statement& main = nest_.statements[0];
    const size_t outputs = main.outputs.size();
    registers_.resize(points_.size());
    if (!nest_.hasReduction()) {
      if (plan_.transposed >= 0 || plan_.strategy == "pack") return emitPointByPoint();
      for (size_t p = 0; p < points_.size(); ++p) {
        Values old;
        for (size_t o = 0; o < outputs; ++o) old.push_back(initial(p, 0, o, plan_.lanes));
        registers_[p].push_back(evaluate(0, p, plan_.lanes, old));
      }
    } else if (plan_.strategy == kTransformStrategy) {
      keep(transformBlock());
    } else {
      const bool blocked = !plan_.reductions.empty() && plan_.block[plan_.reductions[0]] > 0;
      Values accumulators;
      for (size_t p = 0; p < points_.size(); ++p)
        for (size_t o = 0; o < outputs; ++o)
          accumulators.push_back((plan_.horizontal || blocked) && !streamed(o) ? neutral(o)
                                                                               : initial(p, 0, o, plan_.lanes));
      if (plan_.fetch_results) fetch_.startResults();
      if (plan_.fetch_panel) fetch_.startPanel();
      if (!plan_.next_slice.empty()) fetch_.startNextSlice(context_);
      if (!plan_.upcoming.empty()) fetch_.startUpcoming(context_);
      if (blocked) return emitBlock(plan_.reductions[0], accumulators);
      accumulators = reduce(0, accumulators);
      keep(accumulators);
      if (plan_.horizontal) combineLanes();
    }
    finish();
  }

 private:
  /// One block of a separable transform: the left matrix on its columns as they are loaded, then the right one on
  /// the rows of what that leaves. Results in the order of the points.
  Values transformBlock() {
    const SeparableTransform transform = *separableTransform(nest_);
    const auto& [left, right] = std::pair(transform.left, transform.right);
    const int slot = slotOf(0, false, transform.source);
    std::vector<Values> halfway(left.matrix.size());  // [p][j]
    for (int64_t j = 0; j < nest_.extents[right.reduction]; ++j) {
      Values column;
      for (int64_t i = 0; i < nest_.extents[left.reduction]; ++i) {
        Point point = points_[0];
        point.at[left.reduction] = i;
        point.at[right.reduction] = j;
        Value value = memory_.load(slot, point, plan_.lanes);
        const mlir::Type element = nest_.statements[0].outputs[0].access.element;
        if (mlir::getElementTypeOrSelf(value.getType()) != element)
          value = arith::ExtFOp::create(b_, loc_, mlir::VectorType::get({plan_.lanes}, element), value);
        column.push_back(value);
      }
      const Values turned = applyMatrix(b_, left.matrix, column, context_.chip->fusesMultiplyAdd());
      for (auto [p, value] : llvm::enumerate(turned)) halfway[p].push_back(value);
    }
    std::vector<Values> results;  // [p][q]
    for (const Values& row : halfway)
      results.push_back(applyMatrix(b_, right.matrix, row, context_.chip->fusesMultiplyAdd()));
    Values ordered;
    for (const Point& point : points_) ordered.push_back(results[point.at[left.parallel]][point.at[right.parallel]]);
    return ordered;
  }

  /// The first statement's results into the registers followers read.
  void keep(llvm::ArrayRef<Value> accumulators) {
    const size_t outputs = nest_.statements[0].outputs.size();
    for (size_t p = 0; p < points_.size(); ++p)
      registers_[p].emplace_back(accumulators.begin() + p * outputs, accumulators.begin() + (p + 1) * outputs);
  }

  /// Followers on what is in registers, then all stores.
  void finish() {
    memory_.forget();
    const int lanes = plan_.horizontal ? 1 : plan_.lanes;
    for (int s = 1; s < static_cast<int>(nest_.statements.size()); ++s)
      for (size_t p = 0; p < points_.size(); ++p) {
        Values old;
        for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o) old.push_back(initial(p, s, o, lanes));
        registers_[p].push_back(evaluate(s, p, lanes, old));
      }
    for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s)
      for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
        if (nest_.statements[s].stored[o] && (s > 0 || !streamed(o))) storeAll(s, o, lanes);
  }

  void storeAll(int statement, size_t output, int lanes) {
    const int slot = slotOf(statement, true, output), along = memory_.turnedStore(slot, lanes);
    Values values;
    for (const auto& registers : registers_) values.push_back(registers[statement][output]);
    if (along >= 0) return memory_.storeTurned(slot, points_, along, values);
    for (auto [point, value] : llvm::zip_equal(points_, values)) memory_.store(slot, point, lanes, value);
  }

  /// Copies and transposes: each point is stored before the next is made, so that few values are alive.
  void emitPointByPoint() {
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

  /// One block of a reduction that is cut: its sums are added to the initial values by the first block, by the others
  /// to the partial sums in memory, which have come near meanwhile; the last goes on to the followers, the others leave
  /// their sums.
  void emitBlock(int loop, const Values& neutral) {
    const RegisterRef partial = *partialSums(nest_);
    Value begin = tile_.origin[loop];
    auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) -> Value {
      return arith::CmpIOp::create(b_, loc_, predicate, begin, constantI64(bound));
    };
    Values accumulators = reduce(0, neutral);
    Value is_first = compare(arith::CmpIPredicate::eq, 0);
    auto before = mlir::scf::IfOp::create(b_, loc_, mlir::TypeRange(mlir::ValueRange(neutral)), is_first, true);
    {
      OpBuilder::InsertionGuard guard(b_);
      Values first, later;
      b_.setInsertionPointToStart(before.thenBlock());
      memory_.forget();
      for (size_t p = 0; p < points_.size(); ++p) first.push_back(initial(p, 0, 0, plan_.lanes));
      mlir::scf::YieldOp::create(b_, loc_, first);
      b_.setInsertionPointToStart(before.elseBlock());
      memory_.forget();
      for (const Point& point : points_)
        later.push_back(memory_.load(slotOf(partial.statement, true, partial.output), point, plan_.lanes));
      mlir::scf::YieldOp::create(b_, loc_, later);
      memory_.forget();
    }
    for (auto [p, value] : llvm::enumerate(accumulators)) value = combine(0, before.getResult(p), value);
    Value is_last = compare(arith::CmpIPredicate::sge, nest_.extents[loop] - plan_.block[loop]);
    auto leave = mlir::scf::IfOp::create(b_, loc_, is_last, true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(leave.elseBlock());
    for (size_t p = 0; p < points_.size(); ++p)
      memory_.store(slotOf(partial.statement, true, partial.output), points_[p], plan_.lanes, accumulators[p]);
    b_.setInsertionPointToStart(leave.thenBlock());
    keep(accumulators);
    finish();
  }

  int slotOf(int statement, bool output, size_t index) const {
    size_t slot = 0;
    for (int s = 0; s < statement; ++s) slot += nest_.statements[s].inputs.size() + nest_.statements[s].outputs.size();
    if (output) slot += nest_.statements[statement].inputs.size();
    return static_cast<int>(slot + index);
  }

  /// Rows of the tile times vectors; a vector loop that reduces adds no points.
  void collectPoints() {
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

  BodyContext bodyContext(int statement, const Point& point, int lanes) {
    return BodyContext{b_, lanes, context_.chip->fusesMultiplyAdd(),
                       [this, statement, &point, lanes](int dim) { return indexOf(statement, dim, point, lanes); },
                       context_.outer};
  }

  Value constantI64(int64_t value) { return arith::ConstantIntOp::create(b_, loc_, value, 64); }

  Value indexOf(int statement, int dim, const Point& point, int lanes) {
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

  BodyContext plain(int lanes) { return BodyContext{b_, lanes, false, nullptr, context_.outer}; }

  /// What an output holds before its statement runs; null when the body does not look at it.
  Value initial(size_t p, int statement, size_t output, int lanes) {
    const Statement& s = nest_.statements[statement];
    mlir::BlockArgument old = s.body()->getArgument(s.inputs.size() + output);
    if (s.init[output]) return plain(lanes).broadcast(context_.outer(s.init[output]));
    if (old.use_empty()) return plain(lanes).constant(b_.getZeroAttr(old.getType()));
    memory_.forget();  // earlier statements may have written
    return memory_.load(slotOf(statement, true, output), points_[p], lanes);
  }

  bool streamed(size_t output) const { return isStreamed(nest_, static_cast<int>(output)); }

  Value neutral(size_t output) {
    return plain(plan_.lanes).constant(combinerOf(nest_.statements[0], static_cast<int>(output))->neutral);
  }

  Values evaluate(int statement, size_t p, int lanes, llvm::ArrayRef<Value> old) {
    const Statement& s = nest_.statements[statement];
    Values arguments;
    for (size_t i = 0; i < s.inputs.size(); ++i) arguments.push_back(input(statement, i, p, lanes));
    arguments.append(old.begin(), old.end());
    if (s.grouped && lanes == s.grouped->instruction.lanes)
      return {emitDotProduct(b_, *s.grouped, arguments[0], arguments[1], arguments[2])};
    return emitBody(bodyContext(statement, points_[p], lanes), *s.body(), arguments);
  }

  Value input(int statement, size_t index, size_t p, int lanes) {
    const Operand& operand = nest_.statements[statement].inputs[index];
    if (operand.from) return registers_[p][operand.from->statement][operand.from->output];
    if (!operand.access.root) return plain(lanes).broadcast(context_.outer(operand.scalar));
    return memory_.load(slotOf(statement, false, index), points_[p], lanes);
  }

  /// Reduction loops from `level` inwards, carrying the accumulators.
  Values reduce(size_t level, Values accumulators) {
    if (level == plan_.reductions.size()) {
      fetchForTile();
      if (!plan_.next_slice.empty()) fetch_.nextSlice(firstStep());
      if (!plan_.upcoming.empty()) fetch_.upcoming(firstStep());
      step(0, accumulators);
      return accumulators;
    }
    const int loop = plan_.reductions[level];
    const int64_t extent = nest_.extents[loop], tile = std::min(plan_.tile[loop], extent);
    const int64_t full = extent / tile, rest = extent % tile;
    reduction_sizes_[loop] = tile;
    Value begin = tile_.origin[loop];  // set when the reduction is cut into blocks
    if (full == 1 && rest == 0 && !begin) {
      iterations_[loop] = nullptr;
      return reduce(level + 1, accumulators);
    }
    if (plan_.fetch_rows && level + 1 == plan_.reductions.size()) fetch_.rows(plan_.reductions[level - 1]);
    const Values saved = memory_.pointers();
    Value upper = constantI64(full * tile);
    if (begin) {
      upper = arith::SubIOp::create(b_, loc_, upper, begin);
      upper = arith::MinSIOp::create(b_, loc_, upper, constantI64(plan_.block[loop]));
    }
    if (full > 0) {
      auto loop_op = mlir::scf::ForOp::create(b_, loc_, constantI64(0), upper, constantI64(tile), accumulators);
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(loop_op.getBody());
      iterations_[loop] = loop_op.getInductionVar();
      if (begin) iterations_[loop] = arith::AddIOp::create(b_, loc_, begin, iterations_[loop]);
      memory_.enter(loop, loop_op.getInductionVar());
      Values carried(loop_op.getRegionIterArgs().begin(), loop_op.getRegionIterArgs().end());
      Values next = reduce(level + 1, carried);
      mlir::scf::YieldOp::create(b_, loc_, next);
      accumulators.assign(loop_op.getResults().begin(), loop_op.getResults().end());
      memory_.restore(saved);
    }
    if (rest == 0) return accumulators;
    auto lastSteps = [&] {
      Value start = constantI64(full * tile);
      iterations_[loop] = start;
      memory_.enter(loop, begin ? arith::SubIOp::create(b_, loc_, start, begin).getResult() : start);
      reduction_sizes_[loop] = rest;
      Values result = reduce(level + 1, accumulators);
      memory_.restore(saved);
      return result;
    };
    if (!begin) return lastSteps();
    Value is_last =
        arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sge, begin, constantI64(extent - plan_.block[loop]));
    auto branch = mlir::scf::IfOp::create(b_, loc_, mlir::TypeRange(mlir::ValueRange(accumulators)), is_last, true);
    {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(branch.elseBlock());
      mlir::scf::YieldOp::create(b_, loc_, accumulators);
      b_.setInsertionPointToStart(branch.thenBlock());
      mlir::scf::YieldOp::create(b_, loc_, lastSteps());
    }
    return Values(branch.getResults().begin(), branch.getResults().end());
  }

  void fetchForTile() {
    if (!plan_.copies.empty()) fetch_.copied();
    if (!plan_.fetch_panel && !plan_.fetch_results) return;
    Value first = firstStep();
    if (plan_.fetch_panel) fetch_.panel(first);
    if (plan_.fetch_results) fetch_.results(first);
  }

  /// i64: the first step of this body of unrolled steps, counted over all reduction loops of the block.
  Value firstStep() {
    Value first = constantI64(0);
    for (int loop : plan_.reductions) {
      const int64_t extent = plan_.block[loop] > 0 ? plan_.block[loop] : nest_.extents[loop];
      first = arith::MulIOp::create(b_, loc_, first, constantI64(extent));
      Value position = iterations_[loop];
      if (!position) continue;
      if (tile_.origin[loop]) position = arith::SubIOp::create(b_, loc_, position, tile_.origin[loop]);
      first = arith::AddIOp::create(b_, loc_, first, position);
    }
    return first;
  }

  /// The unrolled steps of a window that slides along the tile's points: for each row of the window all points, each
  /// with the row's steps. What one point loads the next one finds.
  void slide(Values& accumulators) {
    const int along = plan_.reductions.back();
    const int64_t steps = reduction_sizes_[along];
    memory_.forget();
    for (size_t p = 0; p < points_.size(); ++p)
      for (int64_t i = 0; i < steps; ++i) {
        memory_.setOffset(along, i);
        accumulators[p] = evaluate(0, p, plan_.lanes, accumulators[p])[0];
      }
    memory_.setOffset(along, 0);
  }

  /// The unrolled reduction steps, innermost loop fastest.
  void step(size_t level, Values& accumulators) {
    if (plan_.sliding && level + 1 == plan_.reductions.size()) return slide(accumulators);
    if (level < plan_.reductions.size()) {
      const int loop = plan_.reductions[level];
      const bool vector = loop == plan_.vector_loop;
      for (int64_t i = 0; i < reduction_sizes_[loop]; i += vector ? plan_.lanes : 1) {
        memory_.setOffset(loop, i);
        if (vector) {
          const int active = static_cast<int>(std::min<int64_t>(plan_.lanes, reduction_sizes_[loop] - i));
          for (Point& point : points_) point.active = active;
        }
        step(level + 1, accumulators);
      }
      memory_.setOffset(loop, 0);
      return;
    }
    memory_.forget();
    if (plan_.ahead > 0) fetch_.ahead();
    const size_t outputs = nest_.statements[0].outputs.size();
    llvm::SmallVector<std::tuple<size_t, size_t, Value>> kept;  // point, output: stored after all has been read
    for (size_t p = 0; p < points_.size(); ++p) {
      llvm::MutableArrayRef<Value> mine(accumulators.begin() + p * outputs, outputs);
      Values next = evaluate(0, p, plan_.lanes, mine);
      for (size_t o = 0; o < outputs; ++o) {
        if (streamed(o)) {
          if (nest_.statements[0].stored[o]) kept.emplace_back(p, o, next[o]);
          continue;
        }
        // Lanes past the end must not change what has been accumulated.
        if (plan_.horizontal && points_[p].active < plan_.lanes)
          next[o] = arith::SelectOp::create(b_, loc_, memory_.mask(plan_.lanes, points_[p].active), next[o], mine[o]);
        mine[o] = next[o];
      }
    }
    if (points_.size() > 1 && points_.size() <= 4 && bodyCost(*nest_.statements[0].body()) >= kLongBody)
      b_.getInsertionBlock()->getParentOp()->setAttr(kSideBySide, b_.getUnitAttr());
    for (auto [p, o, value] : kept) memory_.store(slotOf(0, true, o), points_[p], plan_.lanes, value);
  }

  /// Two partial results of output `output` of the reduction as one.
  Value combine(size_t output, Value x, Value y) {
    mlir::Operation* op = combinerOf(nest_.statements[0], static_cast<int>(output))->op;
    mlir::OperationState state(loc_, op->getName());
    state.addOperands({x, y});
    state.addTypes(x.getType());
    state.attributes = op->getDiscardableAttrDictionary().getValue();
    state.propertiesAttr = op->getPropertiesAsAttribute();
    return b_.create(state)->getResult(0);
  }

  /// Horizontal mode: lanes to one scalar, then the initial value (the order of summation differs from the
  /// scalar loop's; nothing else is reassociated).
  void combineLanes() {
    for (size_t p = 0; p < points_.size(); ++p)
      for (size_t o = 0; o < nest_.statements[0].outputs.size(); ++o) {
        if (streamed(o)) continue;
        // Pairwise, so that the depth is log2(lanes).
        Value vector = registers_[p][0][o];
        for (int width = plan_.lanes; width > 1; width /= 2) {
          llvm::SmallVector<int64_t> low, high;
          for (int i = 0; i < width / 2; ++i) {
            low.push_back(i);
            high.push_back(i + width / 2);
          }
          vector = combine(o, mlir::vector::ShuffleOp::create(b_, loc_, vector, vector, low),
                           mlir::vector::ShuffleOp::create(b_, loc_, vector, vector, high));
        }
        Value scalar = mlir::vector::ExtractOp::create(b_, loc_, vector, 0);
        registers_[p][0][o] = combine(o, initial(p, 0, o, 1), scalar);
      }
  }

  OpBuilder& b_;
  mlir::Location loc_;
  const Nest& nest_;
  const TilePlan& plan_;
  const EmitContext& context_;
  const Tile& tile_;
  TileMemory memory_;
  TileFetch fetch_;
  Values iterations_;  ///< per loop: i64, null = 0
  std::map<int, int64_t> reduction_sizes_;
  std::vector<Point> points_;
  std::vector<std::vector<Values>> registers_;  ///< [point][statement][output]
};

}  // namespace

void emitTile(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
              const Tile& tile) {
  TileEmitter(builder, nest, plan, context, tile).emit();
}

}  // namespace tessera::compiler::codegen
