// Runs seeds 1 to 2,000. TESSERA_SIMULATION_SEEDS="FIRST COUNT" runs others; TESSERA_SIMULATION_SEED=N replays one and
// prints its events.
#include "server/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "absl/strings/str_join.h"

namespace tessera::server::simulation {
namespace {

TEST(Simulation, HoldsForEverySeed) {
  uint64_t first = 1;
  uint64_t count = 2000;
  if (const char* seeds = std::getenv("TESSERA_SIMULATION_SEEDS")) {
    std::istringstream(seeds) >> first >> count;
  }
  const char* one = std::getenv("TESSERA_SIMULATION_SEED");
  if (one != nullptr) {
    first = std::strtoull(one, nullptr, 10);
    count = 1;
  }
  int64_t jobs = 0;
  int64_t succeeded = 0;
  int64_t steps = 0;
  int64_t slowest_us = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome outcome = simulate(seed, one != nullptr);
    ASSERT_TRUE(outcome.problems.empty())
        << outcome.options << "\n"
        << absl::StrJoin(outcome.trace, "\n") << "\n"
        << absl::StrJoin(outcome.problems, "\n") << "\nreplay it: TESSERA_SIMULATION_SEED=" << seed;
    jobs += outcome.jobs;
    succeeded += outcome.succeeded;
    steps += outcome.steps;
    slowest_us = std::max(slowest_us, outcome.settled_us);
    if (one != nullptr) std::printf("%s\n%s\n", outcome.options.c_str(), absl::StrJoin(outcome.trace, "\n").c_str());
  }
  std::printf("%llu seeds, %lld jobs (%lld succeeded), %lld events; after the faults at most %.1f s to the last end\n",
              static_cast<unsigned long long>(count), static_cast<long long>(jobs), static_cast<long long>(succeeded),
              static_cast<long long>(steps), static_cast<double>(slowest_us) / 1e6);
  if (one == nullptr) EXPECT_GT(succeeded, jobs / 2) << "a world in which little succeeds shows little";
}

TEST(Simulation, ReplaysFromItsSeed) {
  for (const uint64_t seed : {3U, 17U, 101U}) {
    const Outcome once = simulate(seed, true);
    const Outcome again = simulate(seed, true);
    EXPECT_EQ(once.trace, again.trace);
    EXPECT_EQ(once.trace_hash, again.trace_hash);
    EXPECT_EQ(once.steps, again.steps);
    EXPECT_GT(once.trace.size(), 5u);
  }
}

}  // namespace
}  // namespace tessera::server::simulation
