#include "compiler/backends/cpu/region/masked_keys.h"

#include "compiler/backends/cpu/region/softmax_parts.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/ir/mask_bounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {
namespace {

/// Bounds of the values that statements of the score-writing nest compute within a box of its loops.
class ScoreBounds {
 public:
  ScoreBounds(const SlicedNests& nests, llvm::ArrayRef<Range> loops)
      : nests_(nests), nest_(nests.nests[nests.mask->nest]), loops_(loops) {}

  // A product sums finite values that nothing bounds; any other reduction could yield anything.
  Bounds of(int number, int output) const {
    const Statement& statement = nest_.statements[number];
    if (number == 0 && nest_.hasReduction()) return isContraction(nest_) ? kSummed : Bounds{};
    return boundsOf(
        statement.body()->getTerminator()->getOperand(output),
        [&](unsigned argument) {
          return argument < statement.inputs.size() ? ofInput(statement.inputs[argument]) : Bounds{};
        },
        [&](int64_t dim) { return position(statement, dim); });
  }

 private:
  // A constant bounds itself. A value from memory is finite unless a nest of this region computed it in an unknown way.
  Bounds ofInput(const Operand& input) const {
    if (input.from) return of(input.from->statement, input.from->output);
    if (!input.access.root) {
      if (!input.scalar || !input.scalar.getDefiningOp<mlir::arith::ConstantOp>()) return {};
      return boundsOf(input.scalar, [](unsigned) { return Bounds{}; }, [](int64_t) { return Bounds{}; });
    }
    if (!llvm::isa<mlir::FloatType>(input.access.element)) return {};
    bool summed = false;
    for (const Nest& nest : nests_.nests) {
      if (!writes(nest, input.access.root)) continue;
      if (!isContraction(nest) || nest.statements.size() > 1) return kRead;
      summed = true;
    }
    return summed ? kSummed : kRead;
  }

  Bounds position(const Statement& statement, int64_t dim) const {
    if (dim >= static_cast<int64_t>(statement.index_weights.size())) return {};
    Bounds sum{0, 0};
    for (auto [weight, range] : llvm::zip_equal(statement.index_weights[dim], loops_)) {
      const auto first = static_cast<double>(weight * range.lo), last = static_cast<double>(weight * (range.hi - 1));
      // Interval arithmetic: a linear function takes its extremes at the ends of each loop.
      sum.lo += std::min(first, last);
      sum.hi += std::max(first, last);
    }
    return sum;
  }

  const SlicedNests& nests_;
  const Nest& nest_;
  llvm::ArrayRef<Range> loops_;
};

// A body without linalg.index cannot depend on positions, so no mask has to be searched.
bool comparesPositions(const Nest& nest) {
  return llvm::any_of(nest.statements, [](const Statement& statement) {
    return llvm::any_of(*statement.body(), [](mlir::Operation& op) { return mlir::isa<mlir::linalg::IndexOp>(op); });
  });
}

/// The loops over keys by which nests sum scores or powers: they must cover the kept keys.
llvm::SmallVector<std::pair<size_t, int>> sumsOf(const SlicedNests& nests, const SoftmaxScores& softmax) {
  llvm::SmallVector<std::pair<size_t, int>> sums;
  for (auto [n, nest] : llvm::enumerate(nests.nests))
    for (int loop = 0; loop < nest.loops(); ++loop) {
      if (!nest.reduction[loop] || nest.extents[loop] != softmax.keys) continue;
      const bool along = llvm::any_of(nest.statements[0].inputs, [&, loop = loop](const Operand& input) {
        return (input.access.root == softmax.scores || input.access.root == softmax.powers) &&
               input.access.strides[loop] == softmax.stride;
      });
      if (along) sums.emplace_back(n, loop);
    }
  return sums;
}

SoftmaxScores scoresOf(const SlicedNests& nests, const SoftmaxParts& parts) {
  const Nest& maximum = nests.nests[parts.maximum];
  const int keys = static_cast<int>(llvm::find(maximum.reduction, true) - maximum.reduction.begin());
  const Access& scores = maximum.statements[0].inputs[0].access;
  return {scores.root, nests.nests[parts.powers].statements[0].outputs[0].access.root, scores.strides[keys],
          maximum.extents[keys]};
}

}  // namespace

std::optional<SoftmaxScores> scoresOf(const SlicedNests& nests) {
  const auto parts = findSoftmax(nests);
  return parts ? std::optional(scoresOf(nests, *parts)) : std::nullopt;
}

std::optional<SoftmaxScores> softmaxWithUnsharedScores(const SlicedNests& nests) {
  // The last product that reads a softmax decides; its scores may be read by that softmax only.
  for (size_t product = nests.nests.size(); product-- > 0;) {
    const auto parts = softmaxReadBy(nests, product);
    if (!parts) continue;
    const SoftmaxScores softmax = scoresOf(nests, *parts);
    if (nests.isResult(softmax.scores) || nests.isResult(softmax.powers) || softmax.scores == softmax.powers)
      return std::nullopt;
    for (auto [n, nest] : llvm::enumerate(nests.nests)) {
      if (reads(nest, softmax.scores) && n != parts->maximum && n != parts->powers) return std::nullopt;
      if (reads(nest, softmax.powers) && n != parts->sum && n != parts->product) return std::nullopt;
    }
    return softmax;
  }
  return std::nullopt;
}

void findPositionMask(SlicedNests& nests, const SoftmaxScores& softmax, int64_t block_keys) {
  // Results need all of their elements, and a softmax in place has overwritten its scores.
  if (nests.isResult(softmax.scores) || nests.isResult(softmax.powers) || softmax.scores == softmax.powers) return;
  PositionMask mask;
  mask.keys_per_group = block_keys > 0 ? block_keys : keysPerGroup(softmax.keys, kMaxKeyGroups);
  mask.blocks = block_keys > 0;
  mask.sums = sumsOf(nests, softmax);
  int writers = 0;
  for (auto [n, nest] : llvm::enumerate(nests.nests)) {
    const bool sums = llvm::any_of(mask.sums, [n = n](const auto& sum) { return sum.first == n; });
    // A nest that reads powers without summing them over the keys would read the powers of skipped keys.
    if (reads(nest, softmax.powers) && !sums) return;
    for (auto [s, statement] : llvm::enumerate(nest.statements))
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        if (output.access.root != softmax.scores) continue;
        ++writers;
        mask.nest = n;
        mask.statement = static_cast<int>(s);
        mask.output = static_cast<int>(o);
        mask.key = -1;
        for (int loop = 0; loop < nest.loops(); ++loop)
          if (output.access.strides[loop] == softmax.stride && nest.extents[loop] == softmax.keys) mask.key = loop;
      }
  }
  // The mask is read from the body of the one nest that writes the scores (ScoreBounds).
  if (writers != 1 || mask.key < 0 || !comparesPositions(nests.nests[mask.nest])) return;
  nests.mask = std::move(mask);
}

Range unmaskedKeys(const SlicedNests& nests, llvm::ArrayRef<Range> loops) {
  const PositionMask& mask = *nests.mask;
  llvm::SmallVector<Range> box(loops);
  // Tests groups of keys from both ends: a group is removed if all scores in its box are minus infinity.
  const Keys kept =
      compiler::unmaskedKeys(nests.nests[mask.nest].extents[mask.key], mask.keys_per_group, [&](Keys keys) {
        box[mask.key] = {keys.lo, keys.hi};
        return maskedBy(ScoreBounds(nests, box).of(mask.statement, mask.output));
      });
  return {kept.lo, kept.hi};
}

}  // namespace tessera::compiler::codegen
