#include "compiler/graph/slices/softmax_of_groups.h"

#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/underlying_bytes.h"
#include "compiler/ir/mask_bounds.h"
#include "compiler/ir/softmax.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::linalg::LinalgOp;

/// Returns the operand without its views.
Value operand(LinalgOp op, int64_t number) { return viewSource(op.getDpsInputOperand(number)->get()); }

/// Adapts the graph's operations for findSoftmaxSteps.
struct Operations {
  using Value = mlir::Value;
  using Node = LinalgOp;

  /// Returns the operation that computes `value` if it has `inputs` operands, one result and `sums` reduction loops.
  static std::optional<LinalgOp> madeBy(Value value, int64_t inputs, unsigned sums, SoftmaxBody body) {
    auto op = value.getDefiningOp<LinalgOp>();
    if (!op || op.getNumDpsInputs() != inputs || op.getNumDpsInits() != 1 || op.getNumReductionLoops() != sums ||
        !body(*op.getBlock()))
      return std::nullopt;
    return op;
  }
  static std::optional<LinalgOp> reduces(Value value, SoftmaxBody body) { return madeBy(value, 1, 1, body); }
  static std::optional<LinalgOp> maps(Value value, SoftmaxBody body) { return madeBy(value, 2, 0, body); }
  static Value operand(LinalgOp op, int number) { return compiler::operand(op, number); }
  static bool sameRows(LinalgOp a, LinalgOp b) { return a.getIndexingMapsArray() == b.getIndexingMapsArray(); }
};

bool readOnlyBy(Value value, llvm::ArrayRef<mlir::Operation*> readers) {
  return llvm::all_of(value.getUsers(), [&](mlir::Operation* user) {
    return kindOf(user) == OpKind::kView ? readOnlyBy(user->getResult(0), readers) : llvm::is_contained(readers, user);
  });
}

}  // namespace

int softmaxLoop(const AccessTrace& trace, LinalgOp product) {
  if (product.getNumDpsInputs() != 2 || product.getNumReductionLoops() != 1) return -1;
  // The left operand must be the quotient of a softmax.
  const auto quotient = Operations::maps(operand(product, 0), isQuotientBody);
  if (!quotient) return -1;
  const auto steps = findSoftmaxSteps(Operations(), operand(*quotient, 1));
  if (!steps) return -1;
  const auto& [maximum, powers, sum] = *steps;
  const auto valueOf = [](LinalgOp op) { return op->getResult(0); };
  // Nobody else may read the steps: a running softmax never has them as a whole.
  if (operand(*quotient, 0) != valueOf(powers) || !readOnlyBy(valueOf(*quotient), {product}) ||
      !readOnlyBy(valueOf(sum), {*quotient}) || !readOnlyBy(valueOf(maximum), {powers}) ||
      !readOnlyBy(valueOf(powers), {*quotient, sum}))
    return -1;
  for (auto [iterator, subscript] : llvm::zip_equal(product.getIteratorTypesArray(), trace.iterations(product))) {
    if (iterator != mlir::utils::IteratorType::reduction) continue;
    if (subscript.size() == 1 && subscript[0].coefficient == 1) return subscript[0].loop;
  }
  return -1;
}

namespace {

Bounds boundsOfInput(Value input) {
  if (!mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(input.getType()))) return {};
  mlir::Operation* producer = viewSource(input).getDefiningOp();
  return producer && kindOf(producer) == OpKind::kHeavy ? kSummed : kRead;
}

}  // namespace

std::optional<MaskedScores> maskedScores(const AccessTrace& trace, LinalgOp product, int softmax_loop) {
  const auto quotient = Operations::maps(operand(product, 0), isQuotientBody);
  const auto powers = quotient ? Operations::maps(operand(*quotient, 0), isPowerBody) : std::nullopt;
  auto scores = powers ? operand(*powers, 0).getDefiningOp<LinalgOp>() : nullptr;
  if (!scores || scores.getNumReductionLoops() != 0 || scores->getNumResults() != 1 ||
      !trace.made(scores->getResult(0)) ||
      // Without positions the mask depends on data, and no group of keys can be skipped.
      llvm::none_of(*scores.getBlock(), [](mlir::Operation& op) { return mlir::isa<mlir::linalg::IndexOp>(op); }))
    return std::nullopt;
  return MaskedScores{scores, trace.iterations(scores), softmax_loop};
}

double keptShare(const MaskedScores& scores, const fusion::Tiles& tiles) {
  LinalgOp op = scores.op;
  const llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  auto loopOf = [&](size_t d) {
    const Terms& subscript = scores.iterations[d];
    return subscript.size() == 1 && subscript[0].coefficient == 1 ? subscript[0].loop : -1;
  };
  size_t key = extents.size();
  for (size_t d = 0; d < extents.size(); ++d)
    if (loopOf(d) == scores.softmax_loop) key = d;
  if (key == extents.size()) return 1;
  const int64_t keys = extents[key];
  // The size of the groups of keys that the kernel skips or computes.
  const int64_t keys_per_group =
      tiles[scores.softmax_loop] < keys ? tiles[scores.softmax_loop] : keysPerGroup(keys, kMaxKeyGroups);
  std::vector<Keys> box;
  for (int64_t extent : extents) box.push_back({0, extent});
  double least = 1;
  for (size_t d = 0; d < extents.size(); ++d) {
    // Only tiled loops restrict which keys a slice sees.
    if (d == key || loopOf(d) < 0 || tiles[loopOf(d)] >= extents[d]) continue;
    double kept = 0, slices = 0;
    // Averages over all slices along this loop.
    for (int64_t lo = 0; lo < extents[d]; lo += tiles[loopOf(d)], ++slices) {
      box[d] = {lo, std::min(lo + tiles[loopOf(d)], extents[d])};
      kept += static_cast<double>(
          unmaskedKeys(keys, keys_per_group, [&](Keys part) {
            box[key] = part;
            // The bounds of the scores in this box tell whether the mask removes all of them.
            return maskedBy(boundsOf(
                op.getBlock()->getTerminator()->getOperand(0),
                [&](unsigned argument) {
                  return argument < op.getNumDpsInputs() ? boundsOfInput(op.getDpsInputs()[argument]) : Bounds{};
                },
                [&](int64_t dim) {
                  return Bounds{static_cast<double>(box[dim].lo), static_cast<double>(box[dim].hi - 1)};
                }));
          }).size());
    }
    box[d] = {0, extents[d]};
    // One loop at a time: the tightest one bounds all together.
    least = std::min(least, kept / (slices * static_cast<double>(keys)));
  }
  return least;
}

}  // namespace tessera::compiler
