#include "compiler/backends/cpu/region/sliced_workload.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/region/buffer_lifetimes.h"
#include "compiler/backends/cpu/region/masked_keys.h"
#include "compiler/backends/cpu/region/softmax_nests.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

absl::Status refuseLoops(const PhaseList& list) {
  for (const Phase& phase : list.phases)
    if (!phase.loops.empty())
      return refuseChain(
          absl::StrCat(phase.loops[0]->getName().getStringRef().str(), " is no loop nest over dense data"),
          phase.loops[0]->getName().getStringRef().str(), "structured operations (linalg)");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SlicedNests> flattenPhases(const PhaseList& list) {
  TESSERA_RETURN_IF_ERROR(refuseLoops(list));
  SlicedNests all;
  for (const Phase& phase : list.phases) all.nests.insert(all.nests.end(), phase.nests.begin(), phase.nests.end());
  all.coordinates = commonCoordinates(all.nests);
  llvm::SmallVector<mlir::BlockArgument> results;
  for (const Nest& nest : all.nests)
    for (const Statement& statement : nest.statements)
      for (const Operand& output : statement.outputs)
        if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(output.access.root))
          if (!llvm::is_contained(results, argument)) results.push_back(argument);
  // In the order of the function's arguments, so that the first result does not depend on the order of the nests.
  llvm::sort(results, [](auto a, auto b) { return a.getArgNumber() < b.getArgNumber(); });
  if (!results.empty()) all.result = results[0];
  for (size_t r = 1; r < results.size(); ++r) all.other_results.push_back(results[r]);
  return all;
}

std::string nameOf(const Coordinates& coordinates, int c) {
  const int dim = coordinates.dims[c];
  int part = 0, parts = 0;
  for (int other = 0; other < coordinates.size(); ++other) {
    if (coordinates.dims[other] != dim) continue;
    ++parts;
    part += other < c ? 1 : 0;
  }
  return parts == 1 ? absl::StrCat("d", dim) : absl::StrCat("d", dim, ".", part);
}

int64_t lastReduction(const SlicedNests& nests) {
  int64_t extent = std::numeric_limits<int64_t>::max();
  for (const Nest& nest : nests.nests) {
    if (!isContraction(nest)) continue;
    extent = 1;
    for (int loop = 0; loop < nest.loops(); ++loop)
      if (nest.reduction[loop]) extent *= nest.extents[loop];
  }
  return extent;
}

int64_t slicesOfSequence(int64_t extent, int64_t part, int64_t step) {
  if (part >= extent) return ceilDiv(extent, step);
  return part % step == 0 && part > step ? part / step : 0;
}

absl::StatusOr<std::optional<SliceLoop>> rewriteSoftmax(mlir::OpBuilder& builder, SlicedNests& nests, int64_t columns) {
  nests.deferred_softmax = deferDivisions(nests) > 0;
  const std::optional<SoftmaxScores> scores = scoresOf(nests);
  if (columns == 0) {
    nests.softmax = softmaxWithUnsharedScores(nests);
    const bool eased = scaleByInverseSum(builder, nests);
    nests.deferred_softmax |= eased;
    if (eased && scores) findPositionMask(nests, *scores, 0);
    return std::optional<SliceLoop>();
  }
  TESSERA_ASSIGN_OR_RETURN(auto loop, runSoftmaxInBlocks(builder, nests, columns));
  nests.deferred_softmax = true;
  if (scores) findPositionMask(nests, *scores, columns);
  return std::optional<SliceLoop>(std::move(loop));
}

void prepareSlices(mlir::OpBuilder& builder, SlicedNests& nests, llvm::SmallVector<SliceLoop>& loops) {
  // A region needs a loop; without any cut it is one slice, which coordinate -1 stands for.
  if (loops.empty()) loops.push_back({-1, 1});
  // Slices of a part keep rows of the previous slice. A buffer that holds two values one after another would overwrite
  // these rows.
  builder.setInsertionPointToStart(builder.getInsertionBlock());
  if (loops.back().sequence_length > 1) splitBufferLifetimes(builder, nests);
}

}  // namespace tessera::compiler::codegen
