#include "compiler/runtime/worker_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>

namespace tessera::compiler {
namespace {

/// Every item counts itself and checks an item of the phase before, in plain memory: only the team's synchronization
/// orders these accesses.
struct Counting {
  std::vector<int64_t> grids;
  std::vector<std::vector<int>> done;  // per phase, per item
  std::vector<int> ended;              // per phase
  std::atomic<int> mistakes = 0;

  explicit Counting(std::vector<int64_t> sizes) : grids(std::move(sizes)), ended(grids.size()) {
    for (int64_t grid : grids) done.emplace_back(static_cast<size_t>(grid));
  }
  WorkerTeam::Job job() {
    return {grids,
            [](void* context, size_t phase, int, int64_t low, int64_t high) {
              static_cast<Counting*>(context)->work(phase, low, high);
            },
            [](void* context, size_t phase) {
              static_cast<Counting*>(context)->end(phase);
              return phase + 1;
            },
            this};
  }
  void work(size_t phase, int64_t low, int64_t high) {
    if (low >= high) ++mistakes;
    for (int64_t i = low; i < high; ++i) {
      ++done[phase][static_cast<size_t>(i)];
      if (phase == 0) continue;
      const std::vector<int>& before = done[phase - 1];
      if (!before.empty() && before[static_cast<size_t>(i * 7919) % before.size()] != 1) ++mistakes;
      if (ended[phase - 1] != 1) ++mistakes;
    }
  }
  void end(size_t phase) {
    ++ended[phase];
    for (int times : done[phase]) mistakes += times != 1;
  }
};

TEST(WorkerTeam, EveryItemIsDoneOnceAndPhasesAreInOrder) {
  std::mt19937 random(3);
  for (int threads : {1, 2, 3, 8}) {
    WorkerTeam team(threads);
    for (int repeat = 0; repeat < 30; ++repeat) {
      std::vector<int64_t> grids;
      for (int phase = 0; phase < 60; ++phase) grids.push_back(random() % 3 == 0 ? random() % 3 : random() % 500);
      Counting counting(grids);
      team.run(counting.job());
      EXPECT_EQ(counting.mistakes, 0) << threads << " threads";
      for (size_t phase = 0; phase < grids.size(); ++phase) {
        EXPECT_EQ(counting.ended[phase], 1);
        for (int times : counting.done[phase])
          ASSERT_EQ(times, 1) << "phase " << phase << ", " << threads << " threads";
      }
    }
  }
}

/// Phases 1 and 2 alternate three times, phase 3 never runs.
struct Turns {
  std::atomic<int64_t> items[5] = {};
  int ended[5] = {};

  static void work(void* context, size_t phase, int, int64_t low, int64_t high) {
    static_cast<Turns*>(context)->items[phase] += high - low;
  }
  static size_t next(void* context, size_t phase) {
    auto* self = static_cast<Turns*>(context);
    ++self->ended[phase];
    if (phase == 2) return self->ended[2] < 3 ? 1 : 4;
    return phase + 1;
  }
};

TEST(WorkerTeam, PhasesRunInTheOrderThatTheJobSays) {
  for (int threads : {1, 2, 5}) {
    for (int64_t empty : {0, 7}) {
      WorkerTeam team(threads);
      Turns turns;
      const std::vector<int64_t> grids = {9, empty, 100, 3, 1};
      team.run({grids, &Turns::work, &Turns::next, &turns, 1});
      const int64_t expected[] = {0, 3 * empty, 300, 0, 1};
      for (size_t phase = 0; phase < grids.size(); ++phase) EXPECT_EQ(turns.items[phase], expected[phase]) << phase;
    }
  }
}

TEST(WorkerTeam, RunsOfNothingReturn) {
  for (int threads : {1, 4}) {
    WorkerTeam team(threads);
    for (const std::vector<int64_t>& grids : {std::vector<int64_t>{}, {0}, {0, 0, 5, 0}}) {
      Counting counting(grids);
      team.run(counting.job());
      EXPECT_EQ(counting.mistakes, 0);
      EXPECT_EQ(std::count(counting.ended.begin(), counting.ended.end(), 1), static_cast<int64_t>(grids.size()));
    }
  }
}

TEST(WorkerTeam, GridsBeyondAnyMemoryAreSplitWithoutOverflow) {
  struct Sum {
    std::atomic<uint64_t> items = 0;
  } sum;
  const int64_t grid = INT64_MAX;
  WorkerTeam team(3);
  team.run({{&grid, 1},
            [](void* context, size_t, int, int64_t low, int64_t high) {
              static_cast<Sum*>(context)->items += static_cast<uint64_t>(high - low);
            },
            nullptr,
            &sum});
  EXPECT_EQ(sum.items, static_cast<uint64_t>(INT64_MAX));
}

/// Thread 1 stays in its first chunk until everything else is done.
struct Stuck {
  static constexpr int64_t kGrid = 1000;
  std::atomic<int64_t> done = 0;
  std::atomic<bool> was_there = false, given_up = false;

  static void work(void* context, size_t, int thread, int64_t low, int64_t high) {
    auto* self = static_cast<Stuck*>(context);
    const int64_t items = high - low;
    if (thread == 1 && !self->was_there.exchange(true)) {
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (self->done + items < kGrid) {
        if (std::chrono::steady_clock::now() > patience) {
          self->given_up = true;
          break;
        }
        std::this_thread::yield();
      }
    }
    self->done += items;
  }
};

TEST(WorkerTeam, AThreadThatIsHeldUpKeepsOneChunkOnly) {
  WorkerTeam team(2);
  for (bool was_there = false; !was_there;) {  // on a busy machine the other thread may come too late
    Stuck stuck;
    const int64_t grid = Stuck::kGrid;
    team.run({{&grid, 1}, &Stuck::work, nullptr, &stuck});
    EXPECT_EQ(stuck.done, Stuck::kGrid);
    ASSERT_FALSE(stuck.given_up) << "work that thread 1 had not begun waited for it";
    was_there = stuck.was_there;
  }
}

TEST(WorkerTeam, StartsAndEndsWithoutWork) {
  for (int i = 0; i < 20; ++i) WorkerTeam team(4);
}

TEST(WorkerTeam, CallerIsThreadZero) {
  WorkerTeam team(3);
  struct Seen {
    std::array<std::atomic<std::thread::id>, 3> ids{};
    std::atomic<bool> wrong = false;
  } seen;
  const std::vector<int64_t> grids(200, 50);
  team.run({grids,
            [](void* context, size_t, int thread, int64_t, int64_t) {
              auto* self = static_cast<Seen*>(context);
              const std::thread::id id = std::this_thread::get_id();
              const std::thread::id before = self->ids[static_cast<size_t>(thread)].exchange(id);
              if (before != std::thread::id() && before != id) self->wrong = true;
            },
            nullptr, &seen});
  EXPECT_FALSE(seen.wrong) << "a number was two threads'";
  for (int thread : {1, 2}) EXPECT_NE(seen.ids[static_cast<size_t>(thread)].load(), std::this_thread::get_id());
  if (seen.ids[0].load() != std::thread::id()) EXPECT_EQ(seen.ids[0].load(), std::this_thread::get_id());
}

}  // namespace
}  // namespace tessera::compiler
