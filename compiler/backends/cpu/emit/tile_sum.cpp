// Sums of a tile in registers.
#include "compiler/backends/cpu/emit/body.h"
#include "compiler/backends/cpu/emit/interleave.h"
#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/reduction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

bool TileEmitter::streamed(size_t output) const { return isStreamed(nest_, static_cast<int>(output)); }

Value TileEmitter::neutral(size_t output) {
  return plain(plan_.lanes).constant(combinerOf(nest_.statements[0], static_cast<int>(output))->neutral);
}

void TileEmitter::emitSum(Steps steps) {
  steps_ = steps;
  const bool blocked = !plan_.reductions.empty() && plan_.block[plan_.reductions[0]] > 0;
  Values accumulators;
  for (size_t p = 0; p < points_.size(); ++p)
    for (size_t o = 0; o < nest_.statements[0].outputs.size(); ++o)
      accumulators.push_back((plan_.horizontal || blocked) && !streamed(o) ? neutral(o)
                                                                           : initial(p, 0, o, plan_.lanes));
  if (plan_.prefetch_results) fetch_.startResults();
  if (plan_.prefetch_panel) fetch_.startPanel();
  if (!plan_.next_slice.empty()) fetch_.startNextSlice(context_);
  if (!plan_.next_blocks.empty()) fetch_.startNextBlocks(context_);
  if (blocked) return emitBlock(plan_.reductions[0], accumulators);
  keep(sum(accumulators));
  if (plan_.horizontal) combineLanes();
  finish();
}

/// One block of a reduction that is cut into blocks. The first block adds its sums to the initial values, the others to
/// the partial sums in memory, which have been prefetched meanwhile. The last block continues with the followers, the
/// others store their sums.
void TileEmitter::emitBlock(int loop, const Values& neutral) {
  const RegisterRef partial = *partialSums(nest_);
  Value begin = tile_.origin[loop];
  auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) -> Value {
    return arith::CmpIOp::create(b_, loc_, predicate, begin, constantI64(bound));
  };
  Values accumulators = sum(neutral);
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

/// Emits all reduction loops; accumulators and results are vectors, one per point. In between, an instruction on small
/// matrices keeps them in registers of its own layout.
TileEmitter::Values TileEmitter::sum(const Values& accumulators) {
  if (steps_ != Steps::kOutside || !MatrixSums::areUsedBy(nest_, plan_)) return reduce(0, accumulators);
  matrices_.emplace(b_, nest_, plan_, memory_, points_);
  Values sums = matrices_->unpack(reduce(0, matrices_->pack(accumulators)));
  matrices_.reset();
  return sums;
}

/// Emits the reduction loops from `level` inwards, carrying the accumulators.
TileEmitter::Values TileEmitter::reduce(size_t level, Values accumulators) {
  if (level == plan_.reductions.size()) {
    prefetchForTile();
    if (!plan_.next_slice.empty()) fetch_.nextSlice(firstStep());
    if (!plan_.next_blocks.empty()) fetch_.nextBlocks(firstStep());
    emitSteps(accumulators);
    return accumulators;
  }
  const int loop = plan_.reductions[level];
  const int64_t extent = nest_.extents[loop], tile = std::min(plan_.tile[loop], extent);
  const int64_t full = extent / tile, rest = extent % tile;
  reduction_sizes_[loop] = tile;
  Value begin = tile_.origin[loop];  // set if the reduction is cut into blocks
  if (full == 1 && rest == 0 && !begin) {
    iterations_[loop] = nullptr;
    return reduce(level + 1, accumulators);
  }
  // Before the loop begins, so that the rows arrive while it runs.
  if (plan_.prefetch_rows && level + 1 == plan_.reductions.size()) fetch_.rows(plan_.reductions[level - 1]);
  // Pointers that the loop advances are valid within it only.
  const Values saved = memory_.pointers();
  Value upper = constantI64(full * tile);
  if (begin) {
    upper = arith::SubIOp::create(b_, loc_, upper, begin);
    upper = arith::MinSIOp::create(b_, loc_, upper, constantI64(plan_.block[loop]));
  }
  // The whole tiles in a loop; the shorter last one follows after it with its own unrolled steps.
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
  // If the reduction is cut into blocks, only the last block has the rest.
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

void TileEmitter::prefetchForTile() {
  if (!plan_.copies.empty()) fetch_.copied();
  if (!plan_.prefetch_panel && !plan_.prefetch_results) return;
  Value first = firstStep();
  if (plan_.prefetch_panel) fetch_.panel(first);
  if (plan_.prefetch_results) fetch_.results(first);
}

/// i64: the first step of this body of unrolled steps, counted over all reduction loops of the block.
Value TileEmitter::firstStep() {
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

/// The unrolled steps of a window that slides along the tile's points: for each row of the window all points, each with
/// all steps of the row. A point reuses the vectors that the point before it has loaded.
void TileEmitter::stepWithinPoints(Values& accumulators) {
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

/// Emits all unrolled steps. An instruction that is correct for some vectors only has a fallback
/// (ProductInstructionStep::fallback): the code checks the vectors of the second operand at run time and branches to
/// the one or the other.
void TileEmitter::emitSteps(Values& accumulators) {
  const ProductInstructionStep* product = nest_.statements[0].step.get();
  if (matrices_) {
    step(0, accumulators);
    return matrices_->flush(accumulators);
  }
  if (!product || !product->fallback()) return step(0, accumulators);
  if (plan_.horizontal || steps_ == Steps::kWithin) return step(0, accumulators);
  llvm::SetVector<Value> seconds;
  seconds_ = &seconds;
  step(0, accumulators);
  seconds_ = nullptr;
  // One check for all vectors of these steps, so that there is only one branch.
  Value correct = product->isCorrectFor(b_, seconds.getArrayRef());
  // A barrier forces LLVM to load the checked vectors again; it would keep them in registers that the sums need.
  mlir::LLVM::InlineAsmOp::create(
      b_, loc_, mlir::TypeRange(), mlir::ValueRange(), "", "~{memory}", /*has_side_effects=*/true,
      /*is_align_stack=*/false, mlir::LLVM::TailCallKind::None,
      mlir::LLVM::AsmDialectAttr::get(b_.getContext(), mlir::LLVM::AsmDialect::AD_ATT), mlir::ArrayAttr());
  auto branch = mlir::scf::IfOp::create(b_, loc_, mlir::TypeRange(mlir::ValueRange(accumulators)), correct, true);
  for (const bool fallback : {false, true}) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(fallback ? branch.elseBlock() : branch.thenBlock());
    use_fallback_ = fallback;
    Values sums = accumulators;
    step(0, sums);
    mlir::scf::YieldOp::create(b_, loc_, sums);
  }
  memory_.forget();
  accumulators.assign(branch.getResults().begin(), branch.getResults().end());
}

/// The unrolled reduction steps, innermost loop fastest.
void TileEmitter::step(size_t level, Values& accumulators) {
  if (steps_ == Steps::kWithin && level + 1 == plan_.reductions.size()) return stepWithinPoints(accumulators);
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
  if (seconds_) {
    for (size_t p = 0; p < points_.size(); ++p) seconds_->insert(input(0, 1, p, plan_.lanes));
    return;
  }
  if (plan_.ahead > 0) fetch_.ahead();
  if (matrices_) return matrices_->addStep(accumulators);
  const size_t outputs = nest_.statements[0].outputs.size();
  llvm::SmallVector<std::tuple<size_t, size_t, Value>> kept;  // point, output: stored after all loads
  for (size_t p = 0; p < points_.size(); ++p) {
    llvm::MutableArrayRef<Value> mine(accumulators.begin() + p * outputs, outputs);
    Values next = evaluate(0, p, plan_.lanes, mine);
    for (size_t o = 0; o < outputs; ++o) {
      if (streamed(o)) {
        if (nest_.statements[0].stored[o]) kept.emplace_back(p, o, next[o]);
        continue;
      }
      // Lanes past the end must not change the accumulated values.
      if (plan_.horizontal && points_[p].active < plan_.lanes)
        next[o] = arith::SelectOp::create(b_, loc_, memory_.mask(plan_.lanes, points_[p].active), next[o], mine[o]);
      mine[o] = next[o];
    }
  }
  if (plan_.interleaved && points_.size() > 1)
    b_.getInsertionBlock()->getParentOp()->setAttr(kInterleaved, b_.getUnitAttr());
  for (auto [p, o, value] : kept) memory_.store(slotOf(0, true, o), points_[p], plan_.lanes, value);
}

/// Combines two partial results of output `output` of the reduction.
Value TileEmitter::combine(size_t output, Value x, Value y) {
  mlir::Operation* op = combinerOf(nest_.statements[0], static_cast<int>(output))->op;
  mlir::OperationState state(loc_, op->getName());
  state.addOperands({x, y});
  state.addTypes(x.getType());
  state.attributes = op->getDiscardableAttrDictionary().getValue();
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b_.create(state)->getResult(0);
}

/// Horizontal mode: combines the lanes to one scalar, then adds the initial value. The order of summation differs from
/// the scalar loop's; nothing else is reassociated.
void TileEmitter::combineLanes() {
  for (size_t p = 0; p < points_.size(); ++p)
    for (size_t o = 0; o < nest_.statements[0].outputs.size(); ++o) {
      if (streamed(o)) continue;
      // Combines pairwise, so that the depth is log2(lanes): halves, or neighbours for integers. LLVM 22 miscompiles
      // sums of halves of 16 byte products: it makes them one vpdpbusd and takes its first lane for the sum.
      Value vector = registers_[p][0][o];
      const bool neighbours = llvm::cast<mlir::VectorType>(vector.getType()).getElementType().isInteger();
      for (int width = plan_.lanes; width > 1; width /= 2) {
        llvm::SmallVector<int64_t> low, high;
        for (int i = 0; i < width / 2; ++i) {
          low.push_back(neighbours ? 2 * i : i);
          high.push_back(neighbours ? 2 * i + 1 : i + width / 2);
        }
        vector = combine(o, mlir::vector::ShuffleOp::create(b_, loc_, vector, vector, low),
                         mlir::vector::ShuffleOp::create(b_, loc_, vector, vector, high));
      }
      Value scalar = mlir::vector::ExtractOp::create(b_, loc_, vector, 0);
      registers_[p][0][o] = combine(o, initial(p, 0, o, 1), scalar);
    }
}

}  // namespace tessera::compiler::codegen
