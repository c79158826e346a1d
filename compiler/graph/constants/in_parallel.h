#pragma once

#include <cstdint>

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tessera::compiler {

/// Bytes of a result, or points of loops, from which on starting threads pays.
inline constexpr int64_t kWorthThreads = int64_t{1} << 20;

/// Runs work(begin, end) for pieces that cover 0 to `count`, on all cores, the caller's included. Which piece runs
/// where may not change what is computed.
void inParallel(int64_t count, llvm::function_ref<void(int64_t begin, int64_t end)> work);

}  // namespace tessera::compiler
