#include "compiler/graph/constants/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace tessera::compiler {

void parallelFor(int64_t count, llvm::function_ref<void(int64_t begin, int64_t end)> work) {
  constexpr int64_t kPiecesPerThread = 4;  // a delayed thread then delays little work
  const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const int64_t pieces = std::min(count, cores == 1 ? 1 : cores * kPiecesPerThread);
  std::atomic<int64_t> next = 0;
  auto run = [&] {
    for (int64_t piece = next++; piece < pieces; piece = next++) {
      work(count * piece / pieces, count * (piece + 1) / pieces);
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int64_t thread = 1; thread < std::min(cores, pieces); ++thread) others.emplace_back(run);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
    // The system allows no more threads: those that exist do the work, with the caller.
  }
  run();
}

}  // namespace tessera::compiler
