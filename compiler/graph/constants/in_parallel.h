#pragma once

#include <cstdint>

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tessera::compiler {

/// Least bytes of a result, or loop points, for which starting threads pays.
inline constexpr int64_t kMinParallelWork = int64_t{1} << 20;

/// Runs work(begin, end) for ranges that cover [0, count), on all cores including the caller's. Results must not depend
/// on which range runs where.
void parallelFor(int64_t count, llvm::function_ref<void(int64_t begin, int64_t end)> work);

}  // namespace tessera::compiler
