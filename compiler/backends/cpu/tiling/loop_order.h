#pragma once

#include <algorithm>

#include "compiler/backends/cpu/nest.h"
#include "compiler/fusion/ceil_div.h"

/// Counting and ordering of loops, shared by the planners.
namespace tessera::compiler::codegen {

inline int elementBits(mlir::Type type) {
  return type.isIndex() ? 64 : std::max<int>(8, static_cast<int>(type.getIntOrFloatBitWidth()));
}

inline bool varies(const Operand& operand, int loop) {
  return operand.access.root && operand.access.strides[loop] != 0;
}

/// Sorts loops by ascending key; equal keys keep their order.
template <typename Key>
void sortBy(llvm::SmallVector<int>& loops, Key key) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t i = 0; i < loops.size(); ++i) order.emplace_back(key(loops[i]), i);
  std::sort(order.begin(), order.end());
  const llvm::SmallVector<int> before = loops;
  for (size_t i = 0; i < loops.size(); ++i) loops[i] = before[order[i].second];
}

/// Parallel loops by descending stride of the first output: the order of memory.
inline llvm::SmallVector<int> byOutputStride(const Nest& nest) {
  llvm::SmallVector<int> loops;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) loops.push_back(loop);
  sortBy(loops, [&](int loop) { return -nest.statements[0].outputs[0].access.strides[loop]; });
  return loops;
}

}  // namespace tessera::compiler::codegen
