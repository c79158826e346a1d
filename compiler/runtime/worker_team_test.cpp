#include "compiler/runtime/worker_team.h"

#include <gtest/gtest.h>

#include <array>

namespace tessera::compiler {
namespace {

/// Each thread adds to its own cell, meets the others, and reads all cells.
struct Exchange {
  static constexpr int kRounds = 200;
  WorkerTeam* team;
  std::array<int, 8> cells{};  // plain memory: only the barrier orders the accesses
  std::array<int, 8> mistakes{};

  static void work(void* context, int thread) {
    auto* self = static_cast<Exchange*>(context);
    const auto me = static_cast<size_t>(thread);
    const int threads = self->team->threads();
    for (int round = 1; round <= kRounds; ++round) {
      self->cells[me] += 1;
      self->team->barrier();
      int sum = 0;
      for (int i = 0; i < threads; ++i) sum += self->cells[static_cast<size_t>(i)];
      if (sum != round * threads) ++self->mistakes[me];
      self->team->barrier();
    }
  }
};

TEST(WorkerTeam, BarrierOrdersPlainMemory) {
  for (int threads : {1, 2, 4, 8}) {
    WorkerTeam team(threads);
    for (int repeat = 0; repeat < 5; ++repeat) {
      Exchange exchange{&team};
      team.run(&Exchange::work, &exchange);
      EXPECT_EQ(exchange.mistakes, (std::array<int, 8>{})) << threads;
      for (int i = 0; i < threads; ++i) EXPECT_EQ(exchange.cells[static_cast<size_t>(i)], Exchange::kRounds);
    }
  }
}

TEST(WorkerTeam, StartsAndEndsWithoutWork) {
  for (int i = 0; i < 20; ++i) WorkerTeam team(4);
}

TEST(WorkerTeam, CallerIsThreadZero) {
  WorkerTeam team(3);
  struct Seen {
    std::array<std::thread::id, 3> ids;
  } seen;
  team.run(
      [](void* s, int thread) { static_cast<Seen*>(s)->ids[static_cast<size_t>(thread)] = std::this_thread::get_id(); },
      &seen);
  EXPECT_EQ(seen.ids[0], std::this_thread::get_id());
  EXPECT_NE(seen.ids[1], seen.ids[0]);
  EXPECT_NE(seen.ids[2], seen.ids[1]);
}

}  // namespace
}  // namespace tessera::compiler
