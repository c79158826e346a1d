#include "compiler/codegen/micro_kernel.h"

#include <map>
#include <tuple>

#include "compiler/codegen/body.h"
#include "compiler/codegen/contraction_plan.h"
#include "compiler/codegen/reduction.h"
#include "compiler/codegen/separable.h"
#include "compiler/codegen/strided_load.h"
#include "compiler/codegen/transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler::codegen {
namespace {

namespace LLVM = mlir::LLVM;
namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

/// One accumulator's place in the tile.
struct Point {
  llvm::SmallVector<int64_t> at;  ///< per loop, relative to the tile's origin
  int active = 1;                 ///< lanes that exist; fewer at the edge
};

class TileEmitter {
 public:
  TileEmitter(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context, const Tile& tile)
      : b_(builder), loc_(builder.getUnknownLoc()), nest_(nest), plan_(plan), context_(context), tile_(tile) {
    for (const Slot& slot : tile.slots) pointers_.push_back(slot.pointer);
    for (int loop = 0; loop < nest.loops(); ++loop) {
      iterations_.push_back(tile.origin[loop]);
      offset_.push_back(0);
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
      Values accumulators;
      for (size_t p = 0; p < points_.size(); ++p)
        for (size_t o = 0; o < outputs; ++o)
          accumulators.push_back(plan_.horizontal ? neutral(o) : initial(p, 0, o, plan_.lanes));
      if (plan_.fetch_results) fetchResults();
      const int blocked = plan_.reductions.empty() ? -1 : plan_.reductions[0];
      if (blocked >= 0 && plan_.block[blocked] > 0) return emitBlock(blocked, accumulators);
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
        column.push_back(load(slot, point, plan_.lanes));
      }
      const Values turned = applyMatrix(b_, left.matrix, column, context_.fuse_multiply_add);
      for (auto [p, value] : llvm::enumerate(turned)) halfway[p].push_back(value);
    }
    std::vector<Values> results;  // [p][q]
    for (const Values& row : halfway) results.push_back(applyMatrix(b_, right.matrix, row, context_.fuse_multiply_add));
    Values ordered;
    for (const Point& point : points_) ordered.push_back(results[point.at[left.parallel]][point.at[right.parallel]]);
    return ordered;
  }

  /// The first statement's results into the registers followers read.
  void keep(llvm::ArrayRef<Value> accumulators) {
    const size_t outputs = nest_.statements[0].outputs.size();
    for (size_t p = 0; p < points_.size(); ++p)
      registers_[p].push_back(Values(accumulators.begin() + p * outputs, accumulators.begin() + (p + 1) * outputs));
  }

  /// Followers on what is in registers, then all stores.
  void finish() {
    loads_.clear();
    const int lanes = plan_.horizontal ? 1 : plan_.lanes;
    for (int s = 1; s < static_cast<int>(nest_.statements.size()); ++s)
      for (size_t p = 0; p < points_.size(); ++p) {
        Values old;
        for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o) old.push_back(initial(p, s, o, lanes));
        registers_[p].push_back(evaluate(s, p, lanes, old));
      }
    for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s)
      for (size_t p = 0; p < points_.size(); ++p)
        for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
          if (nest_.statements[s].stored[o]) store(s, o, p, lanes, registers_[p][s][o]);
  }

  /// Copies and transposes: each point is stored before the next is made, so that few values are alive.
  void emitPointByPoint() {
    for (size_t p = 0; p < points_.size(); ++p) {
      for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s) {
        Values old;
        for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o) old.push_back(initial(p, s, o, plan_.lanes));
        registers_[p].push_back(evaluate(s, p, plan_.lanes, old));
        for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
          if (nest_.statements[s].stored[o]) store(s, o, p, plan_.lanes, registers_[p][s][o]);
      }
    }
  }

  /// One block of a reduction that is cut: the first starts from the initial values, the others from the partial
  /// sums in memory; the last goes on to the followers, the others leave their sums.
  void emitBlock(int loop, const Values& start) {
    const RegisterRef partial = *partialSums(nest_);
    Value begin = tile_.origin[loop];
    auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) -> Value {
      return arith::CmpIOp::create(b_, loc_, predicate, begin, constantI64(bound));
    };
    Value is_first = compare(arith::CmpIPredicate::eq, 0);
    auto entry = mlir::scf::IfOp::create(b_, loc_, mlir::TypeRange(mlir::ValueRange(start)), is_first, true);
    Values loaded;
    {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(entry.thenBlock());
      mlir::scf::YieldOp::create(b_, loc_, start);
      b_.setInsertionPointToStart(entry.elseBlock());
      loads_.clear();
      for (const Point& point : points_)
        loaded.push_back(load(slotOf(partial.statement, true, partial.output), point, plan_.lanes));
      mlir::scf::YieldOp::create(b_, loc_, loaded);
      loads_.clear();
    }
    Values accumulators = reduce(0, Values(entry.getResults().begin(), entry.getResults().end()));
    Value is_last = compare(arith::CmpIPredicate::sge, nest_.extents[loop] - plan_.block[loop]);
    auto leave = mlir::scf::IfOp::create(b_, loc_, is_last, true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(leave.elseBlock());
    for (size_t p = 0; p < points_.size(); ++p)
      store(partial.statement, partial.output, p, plan_.lanes, accumulators[p]);
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
    return BodyContext{b_, lanes, context_.fuse_multiply_add,
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
      constant += weights[loop] * (point.at[loop] + offset_[loop]);
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

  Value address(Value pointer, mlir::Type element, int64_t offset) {
    if (offset == 0) return pointer;
    return LLVM::GEPOp::create(b_, loc_, pointer.getType(), element, pointer,
                               llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)},
                               LLVM::GEPNoWrapFlags::inbounds);
  }

  /// Addresses reach 2^31 elements from a pointer; farther ones take an index register.
  Value at(Value pointer, mlir::Type element, int64_t offset) {
    if (offset == static_cast<int32_t>(offset)) return address(pointer, element, offset);
    return advance(b_, pointer, element, offset, constantI64(1));
  }

  Value mask(int lanes, int active) {
    llvm::SmallVector<bool> bits(lanes, false);
    std::fill(bits.begin(), bits.begin() + active, true);
    auto type = mlir::VectorType::get({lanes}, b_.getI1Type());
    return arith::ConstantOp::create(b_, loc_, mlir::DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits)));
  }

  static int32_t alignmentOf(mlir::Type memory) { return std::max<int32_t>(1, memory.getIntOrFloatBitWidth() / 8); }

  Value fromMemory(Value loaded, mlir::Type element) {
    if (element.isIndex()) {
      mlir::Type type = element;
      if (auto vector = llvm::dyn_cast<mlir::VectorType>(loaded.getType())) type = vector.clone(element);
      return arith::IndexCastOp::create(b_, loc_, type, loaded);
    }
    if (!element.isInteger(1)) return loaded;
    mlir::Type type = element;
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(loaded.getType())) type = vector.clone(element);
    return arith::TruncIOp::create(b_, loc_, type, loaded);
  }

  int64_t offsetAt(const Access& access, const Point& point) const {
    int64_t offset = 0;
    for (int loop = 0; loop < nest_.loops(); ++loop) offset += access.strides[loop] * (point.at[loop] + offset_[loop]);
    return offset;
  }

  Value load(int slot, const Point& point, int lanes) {
    const Access& access = tile_.slots[slot].operand->access;
    const int64_t offset = offsetAt(access, point);
    const auto key = std::tuple(slot, offset, lanes == 1 ? 1 : point.active);
    if (auto found = loads_.find(key); found != loads_.end()) return found->second;
    const mlir::Type memory = memoryType(access.element);
    const int64_t stride = plan_.vector_loop < 0 ? 0 : access.strides[plan_.vector_loop];
    const int32_t alignment = alignmentOf(memory);
    Value pointer = pointers_[slot];
    auto scalarAt = [&](int64_t element) -> Value {
      return LLVM::LoadOp::create(b_, loc_, memory, at(pointer, memory, element), alignment);
    };
    Value value;
    if (lanes == 1) {
      value = fromMemory(scalarAt(offset), access.element);
    } else if (stride == 0) {
      value = fromMemory(scalarAt(offset), access.element);
      value = mlir::vector::BroadcastOp::create(b_, loc_, mlir::VectorType::get({lanes}, value.getType()), value);
    } else {
      auto type = mlir::VectorType::get({lanes}, memory);
      auto contiguous = [&](int64_t further, int count) -> Value {
        Value from = at(pointer, memory, offset + further);
        if (count == lanes) return LLVM::LoadOp::create(b_, loc_, type, from, alignment);
        Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
        return LLVM::MaskedLoadOp::create(b_, loc_, type, from, mask(lanes, count), zero, alignment);
      };
      if (stride == 1) {
        value = contiguous(0, point.active);
      } else {
        if (turn(slot, point, stride)) return loads_[key];
        if (loadsWholeVectors(stride, lanes))
          return loads_[key] = fromMemory(loadStrided(b_, stride, lanes, point.active, contiguous), access.element);
        value = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
        for (int lane = 0; lane < point.active; ++lane)
          value = mlir::vector::InsertOp::create(b_, loc_, scalarAt(offset + lane * stride), value, lane);
      }
      value = fromMemory(value, access.element);
    }
    loads_[key] = value;
    return value;
  }

  /// Loads the square of the tile that `point` lies in along the transposed loop, turns it, and keeps the vectors
  /// of all its points in loads_. False when the operand is not contiguous along that loop.
  bool turn(int slot, const Point& point, int64_t stride) {
    const int along = plan_.transposed;
    const Access& access = tile_.slots[slot].operand->access;
    if (along < 0 || access.strides[along] != 1) return false;
    const mlir::Type memory = memoryType(access.element);
    const int lanes = plan_.lanes, width = static_cast<int>(tile_.sizes[along]);
    auto type = mlir::VectorType::get({lanes}, memory);
    Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type));
    Point corner = point;
    corner.at[along] = 0;
    const int64_t offset = offsetAt(access, corner);
    Values rows;
    for (int lane = 0; lane < lanes; ++lane) {
      if (lane >= point.active) {
        rows.push_back(zero);
        continue;
      }
      Value from = at(pointers_[slot], memory, offset + lane * stride);
      if (width == lanes) {
        rows.push_back(LLVM::LoadOp::create(b_, loc_, type, from, alignmentOf(memory)));
      } else {
        rows.push_back(LLVM::MaskedLoadOp::create(b_, loc_, type, from, mask(lanes, width), zero, alignmentOf(memory)));
      }
    }
    const Values turned = transposeSquare(b_, rows);
    for (int i = 0; i < width; ++i)
      loads_[std::tuple(slot, offset + i, point.active)] = fromMemory(turned[i], access.element);
    return true;
  }

  void store(int statement, size_t output, size_t p, int lanes, Value value) {
    const int slot = slotOf(statement, true, output);
    const Access& access = tile_.slots[slot].operand->access;
    const Point& point = points_[p];
    const mlir::Type memory = memoryType(access.element);
    const int64_t offset = offsetAt(access, point);
    const int64_t stride = plan_.vector_loop < 0 ? 0 : access.strides[plan_.vector_loop];
    const int32_t alignment = alignmentOf(memory);
    Value pointer = pointers_[slot];
    if (access.element.isInteger(1) || access.element.isIndex()) {
      mlir::Type type = memory;
      if (lanes > 1) type = mlir::VectorType::get({lanes}, memory);
      if (access.element.isIndex()) {
        value = arith::IndexCastOp::create(b_, loc_, type, value);
      } else {
        value = arith::ExtUIOp::create(b_, loc_, type, value);
      }
    }
    if (lanes == 1 || (stride == 1 && point.active == lanes)) {
      LLVM::StoreOp::create(b_, loc_, value, at(pointer, memory, offset), alignment);
    } else if (stride == 1) {
      LLVM::MaskedStoreOp::create(b_, loc_, value, at(pointer, memory, offset), mask(lanes, point.active), alignment);
    } else {
      for (int lane = 0; lane < point.active; ++lane)
        LLVM::StoreOp::create(b_, loc_, mlir::vector::ExtractOp::create(b_, loc_, value, lane),
                              at(pointer, memory, offset + lane * stride), alignment);
    }
  }

  BodyContext plain(int lanes) { return BodyContext{b_, lanes, false, nullptr, context_.outer}; }

  /// What an output holds before its statement runs; null when the body does not look at it.
  Value initial(size_t p, int statement, size_t output, int lanes) {
    const Statement& s = nest_.statements[statement];
    mlir::BlockArgument old = s.body()->getArgument(s.inputs.size() + output);
    if (s.init[output]) return plain(lanes).broadcast(context_.outer(s.init[output]));
    if (old.use_empty()) return plain(lanes).constant(b_.getZeroAttr(old.getType()));
    loads_.clear();  // earlier statements may have written
    return load(slotOf(statement, true, output), points_[p], lanes);
  }

  Value neutral(size_t output) {
    return plain(plan_.lanes).constant(combinerOf(nest_.statements[0], static_cast<int>(output))->neutral);
  }

  Values evaluate(int statement, size_t p, int lanes, llvm::ArrayRef<Value> old) {
    const Statement& s = nest_.statements[statement];
    Values arguments;
    for (size_t i = 0; i < s.inputs.size(); ++i) arguments.push_back(input(statement, i, p, lanes));
    arguments.append(old.begin(), old.end());
    return emitBody(bodyContext(statement, points_[p], lanes), *s.body(), arguments);
  }

  Value input(int statement, size_t index, size_t p, int lanes) {
    const Operand& operand = nest_.statements[statement].inputs[index];
    if (operand.from) return registers_[p][operand.from->statement][operand.from->output];
    if (!operand.access.root) return plain(lanes).broadcast(context_.outer(operand.scalar));
    return load(slotOf(statement, false, index), points_[p], lanes);
  }

  /// Reduction loops from `level` inwards, carrying the accumulators.
  Values reduce(size_t level, Values accumulators) {
    if (level == plan_.reductions.size()) {
      llvm::SmallVector<int64_t> sizes;
      for (int loop : plan_.reductions) sizes.push_back(reduction_sizes_[loop]);
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
    if (plan_.fetch_rows && level + 1 == plan_.reductions.size()) fetchRows(plan_.reductions[level - 1]);
    const Values saved = pointers_;
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
      enter(loop, loop_op.getInductionVar());
      Values carried(loop_op.getRegionIterArgs().begin(), loop_op.getRegionIterArgs().end());
      Values next = reduce(level + 1, carried);
      mlir::scf::YieldOp::create(b_, loc_, next);
      accumulators.assign(loop_op.getResults().begin(), loop_op.getResults().end());
      pointers_ = saved;
    }
    if (rest == 0) return accumulators;
    auto lastSteps = [&] {
      Value start = constantI64(full * tile);
      iterations_[loop] = start;
      enter(loop, begin ? arith::SubIOp::create(b_, loc_, start, begin).getResult() : start);
      reduction_sizes_[loop] = rest;
      Values result = reduce(level + 1, accumulators);
      pointers_ = saved;
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

  void enter(int loop, Value iteration) {
    for (auto [slot, pointer] : llvm::enumerate(pointers_)) {
      if (!pointer) continue;
      const Access& access = tile_.slots[slot].operand->access;
      pointer = advance(b_, pointer, memoryType(access.element), access.strides[loop], iteration);
    }
  }

  /// Asks for the lines that the points of the tile touch in a slot, `further` elements from where they are now.
  void fetch(int slot, int64_t further, bool to_write) {
    const Access& access = tile_.slots[slot].operand->access;
    const int64_t along = access.strides[plan_.vector_loop];
    if (!pointers_[slot] || (along != 1 && along != 0)) return;
    const mlir::Type memory = memoryType(access.element);
    llvm::SmallVector<int64_t> fetched;
    for (const Point& point : points_) {
      const int64_t offset = offsetAt(access, point) + further;
      if (llvm::is_contained(fetched, offset)) continue;
      fetched.push_back(offset);
      LLVM::Prefetch::create(b_, loc_, at(pointers_[slot], memory, offset), to_write ? 1 : 0, /*hint=*/3, /*cache=*/1);
    }
  }

  /// The vector operand's lines of a few steps later: panels larger than L1 come from L2 in time.
  void fetchAhead() {
    const int step = plan_.reductions.back();
    for (size_t i = 0; i < nest_.statements[0].inputs.size(); ++i) {
      const int slot = slotOf(0, false, i);
      const Operand& operand = *tile_.slots[slot].operand;
      if (operand.access.root && !operand.from && operand.access.strides[plan_.vector_loop] == 1)
        fetch(slot, plan_.ahead * operand.access.strides[step], false);
    }
  }

  /// The broadcast operand's lines of the next iteration of `loop`.
  void fetchRows(int loop) {
    for (size_t i = 0; i < nest_.statements[0].inputs.size(); ++i) {
      const int slot = slotOf(0, false, i);
      const Operand& operand = *tile_.slots[slot].operand;
      if (operand.access.root && !operand.from && operand.access.strides[plan_.vector_loop] == 0)
        fetch(slot, operand.access.strides[loop], false);
    }
  }

  /// The results' lines, which a long sum would otherwise find gone from the caches nearby.
  void fetchResults() {
    for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s)
      for (size_t o = 0; o < nest_.statements[s].outputs.size(); ++o)
        if (nest_.statements[s].stored[o]) fetch(slotOf(s, true, o), 0, true);
  }

  /// The unrolled steps of a window that slides along the tile's points: for each row of the window all points, each
  /// with the row's steps. What one point loads the next one finds.
  void slide(Values& accumulators) {
    const int along = plan_.reductions.back();
    const int64_t steps = reduction_sizes_[along];
    loads_.clear();
    for (size_t p = 0; p < points_.size(); ++p)
      for (int64_t i = 0; i < steps; ++i) {
        offset_[along] = i;
        accumulators[p] = evaluate(0, p, plan_.lanes, accumulators[p])[0];
      }
    offset_[along] = 0;
  }

  /// The unrolled reduction steps, innermost loop fastest.
  void step(size_t level, Values& accumulators) {
    if (plan_.sliding && level + 1 == plan_.reductions.size()) return slide(accumulators);
    if (level < plan_.reductions.size()) {
      const int loop = plan_.reductions[level];
      const bool vector = loop == plan_.vector_loop;
      for (int64_t i = 0; i < reduction_sizes_[loop]; i += vector ? plan_.lanes : 1) {
        offset_[loop] = i;
        if (vector) {
          const int active = static_cast<int>(std::min<int64_t>(plan_.lanes, reduction_sizes_[loop] - i));
          for (Point& point : points_) point.active = active;
        }
        step(level + 1, accumulators);
      }
      offset_[loop] = 0;
      return;
    }
    loads_.clear();
    if (plan_.ahead > 0) fetchAhead();
    const size_t outputs = nest_.statements[0].outputs.size();
    for (size_t p = 0; p < points_.size(); ++p) {
      llvm::MutableArrayRef<Value> mine(accumulators.begin() + p * outputs, outputs);
      Values next = evaluate(0, p, plan_.lanes, mine);
      for (size_t o = 0; o < outputs; ++o) {
        // Lanes past the end must not change what has been accumulated.
        if (plan_.horizontal && points_[p].active < plan_.lanes)
          next[o] = arith::SelectOp::create(b_, loc_, mask(plan_.lanes, points_[p].active), next[o], mine[o]);
        mine[o] = next[o];
      }
    }
  }

  /// Horizontal mode: lanes to one scalar, then the initial value (the order of summation differs from the
  /// scalar loop's; nothing else is reassociated).
  void combineLanes() {
    for (size_t p = 0; p < points_.size(); ++p)
      for (size_t o = 0; o < nest_.statements[0].outputs.size(); ++o) {
        auto combiner = combinerOf(nest_.statements[0], static_cast<int>(o));
        // Pairwise, so that the depth is log2(lanes).
        Value vector = registers_[p][0][o];
        auto combine = [&](Value x, Value y) {
          mlir::OperationState state(loc_, combiner->op->getName());
          state.addOperands({x, y});
          state.addTypes(x.getType());
          state.attributes = combiner->op->getDiscardableAttrDictionary().getValue();
          state.propertiesAttr = combiner->op->getPropertiesAsAttribute();
          return b_.create(state)->getResult(0);
        };
        for (int width = plan_.lanes; width > 1; width /= 2) {
          llvm::SmallVector<int64_t> low, high;
          for (int i = 0; i < width / 2; ++i) {
            low.push_back(i);
            high.push_back(i + width / 2);
          }
          vector = combine(mlir::vector::ShuffleOp::create(b_, loc_, vector, vector, low),
                           mlir::vector::ShuffleOp::create(b_, loc_, vector, vector, high));
        }
        Value scalar = mlir::vector::ExtractOp::create(b_, loc_, vector, 0);
        registers_[p][0][o] = combine(initial(p, 0, o, 1), scalar);
      }
  }

  OpBuilder& b_;
  mlir::Location loc_;
  const Nest& nest_;
  const TilePlan& plan_;
  const EmitContext& context_;
  const Tile& tile_;
  Values pointers_;                    ///< per slot, advanced by the reduction loops entered
  Values iterations_;                  ///< per loop: i64, null = 0
  llvm::SmallVector<int64_t> offset_;  ///< per loop: position within the unrolled step
  std::map<int, int64_t> reduction_sizes_;
  std::vector<Point> points_;
  std::vector<std::vector<Values>> registers_;  ///< [point][statement][output]
  std::map<std::tuple<int, int64_t, int>, Value> loads_;
};

}  // namespace

Value advance(OpBuilder& builder, Value pointer, mlir::Type element, int64_t stride, Value index) {
  if (stride == 0) return pointer;
  const mlir::Location loc = builder.getUnknownLoc();
  Value offset = index;
  if (stride != 1)
    offset = arith::MulIOp::create(builder, loc, index, arith::ConstantIntOp::create(builder, loc, stride, 64));
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), element, pointer, llvm::ArrayRef<LLVM::GEPArg>{offset},
                             LLVM::GEPNoWrapFlags::inbounds);
}

mlir::Type memoryType(mlir::Type element) {
  if (element.isInteger(1)) return mlir::IntegerType::get(element.getContext(), 8);
  if (element.isIndex()) return mlir::IntegerType::get(element.getContext(), 64);
  return element;
}

void emitTile(OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
              const Tile& tile) {
  TileEmitter(builder, nest, plan, context, tile).emit();
}

}  // namespace tessera::compiler::codegen
