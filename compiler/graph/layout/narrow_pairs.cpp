#include "compiler/graph/layout/narrow_pairs.h"

#include <cstdlib>

#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/ir/workload.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {
namespace {

using mlir::linalg::GenericOp;

/// Above this share, the slower evaluation of wide pairs and mispredicted branches cost as much as narrow pairs gain.
constexpr double kMaxWide = 0.1;

/// Returns the elements of a signed operand that is known at compile time.
std::optional<DenseValue> knownSigned(GenericOp op, ConstantEvaluator& constants) {
  const auto readings = narrowProduct(op);
  if (!readings) return std::nullopt;
  const NarrowInput both[] = {readings->first, readings->second};
  for (int i : {1, 0}) {
    if (!both[i].is_signed || both[i].flipped || both[1 - i].is_signed || !isKnownAtCompileTime(op.getDpsInputs()[i]))
      continue;
    int64_t budget = int64_t{1} << 30;
    return constants.evaluate(op.getDpsInputs()[i], budget);
  }
  return std::nullopt;
}

}  // namespace

double widePairFraction(llvm::ArrayRef<int8_t> elements) {
  constexpr size_t kRun = 64;
  int64_t runs = 0, wide = 0;
  for (size_t begin = 0; begin < elements.size(); begin += kRun, ++runs) {
    const llvm::ArrayRef<int8_t> run = elements.slice(begin, std::min(kRun, elements.size() - begin));
    bool any = false;
    for (size_t i = 0; i + 1 < run.size(); i += 2) any |= std::abs(run[i] + run[i + 1]) > PairProduct::kMaxExactSum;
    wide += any;
  }
  return runs == 0 ? 0 : static_cast<double>(wide) / static_cast<double>(runs);
}

bool hasNarrowPairs(GenericOp op, unsigned along, ConstantEvaluator& constants) {
  const auto known = knownSigned(op, constants);
  if (!known || known->width != 1) return false;
  const auto* elements = reinterpret_cast<const int8_t*>(known->data);
  // [outer, K, inner] -> [outer, K / 4, inner, 4]; zeros fill up the last group.
  constexpr int64_t kGroup = 4;
  int64_t outer = 1, inner = 1;
  for (auto [d, extent] : llvm::enumerate(known->shape))
    if (d != along) (d < along ? outer : inner) *= extent;
  const int64_t steps = known->shape[along], groups = (steps + kGroup - 1) / kGroup;
  std::vector<int8_t> interleaved(static_cast<size_t>(outer * groups * inner * kGroup));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < steps; ++k)
      for (int64_t i = 0; i < inner; ++i)
        interleaved[((o * groups + k / kGroup) * inner + i) * kGroup + k % kGroup] =
            elements[(o * steps + k) * inner + i];
  return widePairFraction(interleaved) <= kMaxWide;
}

int markNarrowPairs(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>& weights) {
  if (!chip.multipliesPairs()) return 0;
  ConstantEvaluator constants = knownWeights(main, &weights);
  int count = 0;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    const auto known = knownSigned(op, constants);
    if (!known || known->width != 1) continue;
    const auto* elements = reinterpret_cast<const int8_t*>(known->data);
    if (widePairFraction({elements, static_cast<size_t>(known->elements())}) > kMaxWide) continue;
    op->setAttr(kNarrowPairs, mlir::UnitAttr::get(op.getContext()));
    ++count;
  }
  return count;
}

}  // namespace tessera::compiler
