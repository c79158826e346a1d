#include "compiler/backends/cpu/decide/fusion.h"

#include <algorithm>

#include "compiler/backends/cpu/tiling/separable.h"

namespace tessera::compiler::codegen {
namespace {

/// Extent of the longest loop along which the nest's last results are contiguous.
int64_t sideBySide(const Nest& nest) {
  int64_t longest = 1;
  for (const Operand& output : nest.statements.back().outputs)
    for (int loop = 0; loop < nest.loops(); ++loop)
      if (!nest.reduction[loop] && output.access.strides[loop] == 1) longest = std::max(longest, nest.extents[loop]);
  return longest;
}

/// Whether fusing the follower would make a sum's vector stores scalar, because the follower permutes the results so
/// that few of them are contiguous (channels shuffled among three groups). A separate pass over data in a near cache
/// permutes them at a lower cost.
bool scatters(const Nest& sum, const Nest& fused) {
  constexpr int64_t kFewer = 4;
  return sum.hasReduction() && sideBySide(fused) * kFewer < sideBySide(sum);
}

/// Whether fusing the follower would make the vector stores of a transform of small blocks scalar. The vectors run
/// along a contiguous dimension of the results; a block has no vectors along the image that could be transposed
/// instead.
bool transposesBlocks(const Nest& sum, const Nest& fused) {
  if (!separableTransform(sum)) return false;
  const auto along = [](const Nest& nest, int loop) {
    return nest.extents[loop] > 1 && llvm::any_of(nest.statements.back().outputs, [loop](const Operand& output) {
             return output.access.strides[loop] == 1;
           });
  };
  return llvm::any_of(llvm::seq(sum.loops()), [&](int loop) { return along(sum, loop) && !along(fused, loop); });
}

}  // namespace

void decideFusion(std::vector<WorkItem>& items, int vector_registers) {
  for (size_t i = 0; i < items.size(); ++i) {
    std::optional<FusionCandidate> candidate = fusionCandidate(items, i);
    if (!candidate || candidate->loses_vectors || candidate->spills(vector_registers) ||
        scatters(*items[i].nest, candidate->nest) || transposesBlocks(*items[i].nest, candidate->nest))
      continue;
    fuse(items, i, *std::move(candidate));  // the reader is visited later in this loop
  }
  completeNests(items);
}

}  // namespace tessera::compiler::codegen
