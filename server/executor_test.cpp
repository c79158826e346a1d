#include "server/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace tessera::server {
namespace {

TEST(ExecutorTest, WorkThatBlocksKeepsNothingElseWaiting) {
  constexpr int kThreads = 4;
  Executor executor(kThreads);
  for (int round = 0; round < 200; ++round) {
    // The last one releases the others, so all four must run concurrently.
    std::promise<void> last;
    const std::shared_future<void> all_there = last.get_future().share();
    std::atomic<int> there = 0;
    std::vector<std::future<void>> ended;
    for (int i = 0; i < kThreads; ++i) {
      auto end = std::make_shared<std::promise<void>>();
      ended.push_back(end->get_future());
      executor.post([&, end] {
        if (++there == kThreads) {
          last.set_value();
        }
        all_there.wait();
        end->set_value();
      });
    }
    for (std::future<void>& each : ended) {
      each.wait();
    }
  }
}

TEST(ExecutorTest, StopRunsWhatIsQueuedAndWaitsForWhatIsExpected) {
  Executor executor(2);
  std::atomic<int> done = 0;
  for (int i = 0; i < 100; ++i) {
    executor.post([&] { ++done; });
  }
  executor.expect();
  executor.expect();
  std::thread later([&] {
    executor.postExpected([&] { ++done; });
    executor.postExpected([&] { ++done; });
  });
  executor.stop();
  EXPECT_EQ(done, 102);
  later.join();
  executor.post([&] { ++done; });
  EXPECT_EQ(done, 102) << "what comes too late is dropped";
}

}  // namespace
}  // namespace tessera::server
