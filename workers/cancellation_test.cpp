#include "workers/cancellation.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera::worker {
namespace {

TEST(CancellationTest, FirstReasonCountsAndIsToldOnce) {
  Cancellation cancellation;
  std::vector<StopReason> told;
  const OnCancel watch(cancellation, [&](StopReason reason) { told.push_back(reason); });
  cancellation.cancel(StopReason::kLeaseLost);
  cancellation.cancel(StopReason::kCancelled);
  EXPECT_EQ(cancellation.reason(), StopReason::kLeaseLost);
  EXPECT_EQ(told, std::vector<StopReason>{StopReason::kLeaseLost});
}

TEST(CancellationTest, LateWatcherIsToldAtOnce) {
  Cancellation cancellation;
  cancellation.cancel(StopReason::kCancelled);
  StopReason told = StopReason::kNone;
  const OnCancel watch(cancellation, [&](StopReason reason) { told = reason; });
  EXPECT_EQ(told, StopReason::kCancelled);
}

TEST(CancellationTest, WatcherThatIsGoneIsNotTold) {
  Cancellation cancellation;
  bool told = false;
  {
    const OnCancel watch(cancellation, [&](StopReason) { told = true; });
  }
  cancellation.cancel(StopReason::kLeaseLost);
  EXPECT_FALSE(told);
}

TEST(CancellationTest, SleepEndsWithTheCancel) {
  Cancellation cancellation;
  EXPECT_TRUE(cancellation.sleepFor(Milliseconds(1)));
  std::thread other([&] { cancellation.cancel(StopReason::kShutdown); });
  EXPECT_FALSE(cancellation.sleepFor(Milliseconds(600'000)));
  other.join();
}

}  // namespace
}  // namespace tessera::worker
