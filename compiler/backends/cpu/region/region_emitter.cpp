#include "compiler/backends/cpu/region/region_emitter.h"

#include "compiler/backends/cpu/emit/tile.h"
#include "compiler/backends/cpu/region/counted_keys.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

class RegionEmitter {
 public:
  RegionEmitter(OpBuilder& builder, const Region& region, EmitContext context)
      : b_(builder), loc_(builder.getUnknownLoc()), region_(region), context_(std::move(context)) {}

  void emit(Value lo, Value hi) {
    if (region_.blocks > 1) {  // the grid counts slices, the emitted loop blocks of slices
      lo = arith::MulIOp::create(b_, loc_, lo, constant(region_.blocks));
      hi = arith::MulIOp::create(b_, loc_, hi, constant(region_.blocks));
    }
    if (region_.sequence_length > 1) {  // the grid counts sequences, the emitted loop slices
      lo = firstSlice(lo);
      hi = firstSlice(hi);
    }
    auto loop = mlir::scf::ForOp::create(b_, loc_, lo, hi, constant(1));
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    // A thread's range may begin anywhere: in its first slice, steps that run once for several slices must run as well.
    first_ = compare(arith::CmpIPredicate::eq, loop.getInductionVar(), lo);
    // The number of each slice loop, from the linear number: mixed radix, the last loop fastest.
    Value rest = loop.getInductionVar();
    for (size_t v = 0; v < region_.counts.size(); ++v) {
      int64_t below = 1;
      for (size_t next = v + 1; next < region_.counts.size(); ++next) below *= region_.counts[next];
      Value number = rest;
      if (below > 1) {
        number = arith::DivUIOp::create(b_, loc_, rest, constant(below));
        rest = arith::RemUIOp::create(b_, loc_, rest, constant(below));
      }
      context_.slice.push_back(number);
    }
    if (region_.mask_loop >= 0) findKept();
    choose(0, 0);
  }

 private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(b_, loc_, value, 64); }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(b_, loc_, predicate, a, b);
  }

  /// The number of the first slice of a sequence, or the number of slices for the end of the grid; the last sequence
  /// may be shorter.
  Value firstSlice(Value sequence) {
    const int64_t count = region_.counts.back(), sequences = region_.sequences();
    Value row = arith::DivUIOp::create(b_, loc_, sequence, constant(sequences));
    Value within = arith::RemUIOp::create(b_, loc_, sequence, constant(sequences));
    return arith::AddIOp::create(b_, loc_, arith::MulIOp::create(b_, loc_, row, constant(count)),
                                 arith::MulIOp::create(b_, loc_, within, constant(region_.sequence_length)));
  }

  /// Variants are numbered by their groups, last slice loop fastest; `variant` is the number of the groups chosen so
  /// far.
  void choose(size_t v, size_t variant) {
    if (v == region_.groups.size()) return run(region_.variants[variant]);
    const auto& groups = region_.groups[v];
    // Groups of first slices of a sequence are listed first, then all others.
    const size_t begins = llvm::count_if(groups, [](const SliceGroup& group) { return group.begins; });
    if (begins == 0 || begins == groups.size()) return choose(v, variant, 0, groups.size());
    OpBuilder::InsertionGuard guard(b_);
    Value place = arith::RemUIOp::create(b_, loc_, context_.slice[v], constant(region_.sequence_length));
    Value first = compare(arith::CmpIPredicate::eq, place, constant(0));
    auto branch = mlir::scf::IfOp::create(b_, loc_, first, /*withElseRegion=*/true);
    b_.setInsertionPointToStart(branch.thenBlock());
    choose(v, variant, 0, begins);
    b_.setInsertionPointToStart(branch.elseBlock());
    choose(v, variant, begins, groups.size());
  }

  /// Selects among groups [begin, end) of slice loop `v`, which are in the order of their slices.
  void choose(size_t v, size_t variant, size_t begin, size_t end) {
    const auto& groups = region_.groups[v];
    OpBuilder::InsertionGuard guard(b_);
    for (size_t g = begin; g < end; ++g) {
      const size_t chosen = variant * groups.size() + g;
      if (g + 1 == end) {
        choose(v + 1, chosen);
        break;
      }
      Value within = compare(arith::CmpIPredicate::slt, context_.slice[v], constant(groups[g].hi));
      auto branch = mlir::scf::IfOp::create(b_, loc_, within, /*withElseRegion=*/true);
      b_.setInsertionPointToStart(branch.thenBlock());
      choose(v + 1, chosen);
      b_.setInsertionPointToStart(branch.elseBlock());
    }
  }

  void run(const RegionVariant& variant) {
    for (const HaloMove& move : variant.moves)
      if (move.from != move.to) emitMove(move, context_.pointer(move.root), 0);
    if (!variant.counted) return run(variant, 0, variant.steps.size(), 0);
    const DynamicKeyRange& counted = *variant.counted;
    run(variant, 0, counted.first, 0);
    runKept(variant, unmaskedKeys(counted), counted.keys_per_group);
    run(variant, counted.end, variant.steps.size(), 0);
  }

  /// Loops over the coordinates outside of the rows, then copies vectors from the first element on.
  void emitMove(const HaloMove& move, Value pointer, size_t outside) {
    const mlir::Type memory = memoryType(move.element);
    OpBuilder::InsertionGuard guard(b_);
    if (outside < move.around.size()) {
      const auto [stride, extent] = move.around[outside];
      auto loop = mlir::scf::ForOp::create(b_, loc_, constant(0), constant(extent), constant(1));
      b_.setInsertionPointToStart(loop.getBody());
      return emitMove(move, advance(b_, pointer, memory, stride, loop.getInductionVar()), outside + 1);
    }
    const int64_t bytes = elementBits(move.element) / 8;
    Value from = advance(b_, pointer, memory, move.from, constant(1));
    Value to = advance(b_, pointer, memory, move.to, constant(1));
    int64_t done = 0;
    // Whole vectors first, then halves of them down to single elements. Ascending addresses: the move goes downwards.
    for (int64_t lanes = std::max<int64_t>(1, region_.move_bytes / bytes); lanes > 0; lanes /= 2) {
      const int64_t end = done + (move.length - done) / lanes * lanes;
      if (end == done) continue;
      OpBuilder::InsertionGuard inner(b_);
      auto loop = mlir::scf::ForOp::create(b_, loc_, constant(done), constant(end), constant(lanes));
      b_.setInsertionPointToStart(loop.getBody());
      const mlir::Type type = lanes > 1 ? mlir::VectorType::get({lanes}, memory) : memory;
      Value at = loop.getInductionVar();
      const auto align = static_cast<unsigned>(bytes);
      Value values = mlir::LLVM::LoadOp::create(b_, loc_, type, advance(b_, from, memory, 1, at), align);
      mlir::LLVM::StoreOp::create(b_, loc_, values, advance(b_, to, memory, 1, at), align);
      done = end;
    }
  }

  /// Emits steps [first, end). Steps over keys run for the first `keys` keys (0: all).
  void run(const RegionVariant& variant, size_t first, size_t end, int64_t keys) {
    OpBuilder::InsertionGuard guard(b_);
    auto strip = llvm::find_if(variant.strips, [&](const Strip& each) { return each.first >= first; });
    for (size_t s = first; s < end; ++s) {
      OpBuilder::InsertionGuard inner(b_);
      const RegionNestRun& step = variant.steps[s];
      const auto nestOf = [&](size_t at) {
        return keys > 0 ? withKeyCount(variant, at, keys) : variant.steps[at].nest;
      };
      enterWhenDue(step);
      if (strip == variant.strips.end() || s < strip->first) {
        const Nest nest = nestOf(s);
        emitNest(b_, nest, step.plan, context_, constant(0), constant(gridOf(nest, step.plan)));
        continue;
      }
      auto loop = mlir::scf::ForOp::create(b_, loc_, constant(0), constant(strip->count), constant(1));
      b_.setInsertionPointToStart(loop.getBody());
      // All steps of the strip inside one loop: each runs for the same rows before the next rows begin.
      for (; s < strip->end; ++s) emitStrip(nestOf(s), variant.steps[s].plan, strip->rows, loop.getInductionVar());
      --s;
      ++strip;
    }
  }

  /// Emits the search for the keys to keep: one past the last key of this slice whose condition holds; 0: none holds.
  Value unmaskedKeys(const DynamicKeyRange& counted) {
    const Access& access = counted.conditions;
    const mlir::Type memory = memoryType(access.element);
    Value pointer = context_.pointer(access.root);
    for (auto [stride, number] : llvm::zip(access.slice, context_.slice))
      pointer = advance(b_, pointer, memory, stride, number);
    if (access.offset != 0) pointer = advance(b_, pointer, memory, access.offset, constant(1));
    auto loop = mlir::scf::ForOp::create(b_, loc_, constant(0), constant(counted.keys), constant(1),
                                         mlir::ValueRange{constant(0)});
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    Value key = loop.getInductionVar();
    Value value = mlir::LLVM::LoadOp::create(b_, loc_, memory, advance(b_, pointer, memory, counted.stride, key));
    if (!value.getType().isInteger(1)) value = arith::TruncIOp::create(b_, loc_, b_.getI1Type(), value);
    // The loop-carried value is one past the last key so far whose condition holds.
    Value behind = arith::AddIOp::create(b_, loc_, key, constant(1));
    mlir::scf::YieldOp::create(
        b_, loc_,
        mlir::ValueRange{arith::SelectOp::create(b_, loc_, value, behind, loop.getRegionIterArgs()[0]).getResult()});
    return loop.getResult(0);
  }

  /// Emits the steps over keys once for each number of keys from `keys` upwards, in steps of a group, in a cascade of
  /// branches: at run time the smallest number that includes the first `kept` keys is chosen. Extents are constants in
  /// each copy, so that each one has the code of an ordinary nest.
  void runKept(const RegionVariant& variant, Value kept, int64_t keys) {
    const DynamicKeyRange& counted = *variant.counted;
    // All keys: the unchanged nests.
    if (keys >= counted.keys) return run(variant, counted.first, counted.end, 0);
    OpBuilder::InsertionGuard guard(b_);
    Value enough = compare(arith::CmpIPredicate::sle, kept, constant(keys));
    auto branch = mlir::scf::IfOp::create(b_, loc_, enough, /*withElseRegion=*/true);
    b_.setInsertionPointToStart(branch.thenBlock());
    run(variant, counted.first, counted.end, keys);
    b_.setInsertionPointToStart(branch.elseBlock());
    runKept(variant, kept, keys + counted.keys_per_group);
  }

  /// Emits the grid points of strip `number` of a step.
  void emitStrip(const Nest& nest, const TilePlan& plan, int64_t rows, Value number) {
    OpBuilder::InsertionGuard guard(b_);
    const int64_t points = rows / plan.levels[0].step, all = gridOf(nest, plan);
    Value lo = arith::MulIOp::create(b_, loc_, number, constant(points));
    Value hi = arith::AddIOp::create(b_, loc_, lo, constant(points));
    if (all % points != 0) hi = arith::MinSIOp::create(b_, loc_, hi, constant(all));
    emitNest(b_, nest, plan, context_, lo, hi);
  }

  /// Computes whether the mask keeps any key of this block, from the slice's number along the mask loop.
  void findKept() {
    Value lo = nullptr, hi = nullptr;
    for (auto [s, range] : llvm::enumerate(region_.unmasked_blocks)) {
      // One comparison for each change of the range.
      if (s > 0 && range == region_.unmasked_blocks[s - 1]) continue;
      Value from = constant(range.lo), to = constant(range.hi);
      if (s > 0) {
        Value reached =
            compare(arith::CmpIPredicate::sge, context_.slice[region_.mask_loop], constant(static_cast<int64_t>(s)));
        from = arith::SelectOp::create(b_, loc_, reached, from, lo);
        to = arith::SelectOp::create(b_, loc_, reached, to, hi);
      }
      lo = from;
      hi = to;
    }
    Value block = context_.slice.back();
    kept_ = arith::AndIOp::create(b_, loc_, compare(arith::CmpIPredicate::sge, block, lo),
                                  compare(arith::CmpIPredicate::slt, block, hi));
  }

  /// Enters branches that skip the step in slices where it does not run.
  void enterWhenDue(const RegionNestRun& step) {
    // A step whose result other blocks or slices read as well runs in the first block, even if the mask removes its
    // keys.
    if (kept_ && step.depth == static_cast<int>(region_.counts.size()) && !step.last) {
      auto branch = mlir::scf::IfOp::create(b_, loc_, kept_, /*withElseRegion=*/false);
      b_.setInsertionPointToStart(branch.thenBlock());
    }
    if (step.depth < static_cast<int>(region_.counts.size())) {
      Value due = nullptr;  // set: all later slice numbers are zero
      for (size_t v = step.depth; v < region_.counts.size(); ++v) {
        if (region_.counts[v] == 1) continue;
        Value zero = compare(arith::CmpIPredicate::eq, context_.slice[v], constant(0));
        due = due ? arith::AndIOp::create(b_, loc_, due, zero).getResult() : zero;
      }
      // If the step depends on no slice number, it runs only in the first slice of this range.
      if (step.depth == 0) due = nullptr;
      due = due ? arith::OrIOp::create(b_, loc_, due, first_).getResult() : first_;
      auto branch = mlir::scf::IfOp::create(b_, loc_, due, /*withElseRegion=*/false);
      b_.setInsertionPointToStart(branch.thenBlock());
    }
    if (step.last) {
      Value is_last = compare(arith::CmpIPredicate::eq, context_.slice.back(), constant(region_.counts.back() - 1));
      auto branch = mlir::scf::IfOp::create(b_, loc_, is_last, /*withElseRegion=*/false);
      b_.setInsertionPointToStart(branch.thenBlock());
    }
  }

  OpBuilder& b_;
  mlir::Location loc_;
  const Region& region_;
  EmitContext context_;
  Value first_;           ///< i1: the first slice of the range
  Value kept_ = nullptr;  ///< i1: the block has keys that a mask keeps; null: every block has
};

}  // namespace

void emitRegion(OpBuilder& builder, const Region& region, const EmitContext& context, Value lo, Value hi) {
  RegionEmitter(builder, region, context).emit(lo, hi);
}

}  // namespace tessera::compiler::codegen
