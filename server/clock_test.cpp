#include "server/clock.h"

#include <gtest/gtest.h>

namespace tessera::server {
namespace {

constexpr int64_t kHour = int64_t{3600} * 1'000'000;

TEST(SystemClockTest, AWallClockThatIsSetMovesNoDeadline) {
  for (const int64_t step : {kHour, -kHour}) {
    int64_t wall = 100 * kHour;
    int64_t monotonic = 0;
    SystemClock clock([&] { return wall; }, [&] { return monotonic; });
    const int64_t start = clock.nowMicros();
    EXPECT_EQ(start, 100 * kHour);
    wall += step;
    int64_t last = start;
    for (int i = 0; i < 1000; ++i) {
      wall += 10'000;
      monotonic += 10'000;
      const int64_t now = clock.nowMicros();
      EXPECT_GE(now, last);
      last = now;
    }
    EXPECT_NEAR(static_cast<double>(last - start), 10'000'000, 100'000) << "of ten seconds, one part in a hundred";
  }
}

TEST(SystemClockTest, ComesBackToTheWallClock) {
  int64_t wall = 100 * kHour;
  int64_t monotonic = 0;
  SystemClock clock([&] { return wall; }, [&] { return monotonic; });
  wall += 1'000'000;
  for (int i = 0; i < 200; ++i) {
    wall += 1'000'000;
    monotonic += 1'000'000;
    (void)clock.nowMicros();
  }
  EXPECT_EQ(clock.nowMicros(), wall);
}

TEST(SystemClockTest, FrequentQuestionsDoNotSlowIt) {
  int64_t monotonic = 0;
  SystemClock clock([&] { return monotonic; }, [&] { return monotonic; });
  for (int i = 0; i < 100'000; ++i) {
    monotonic += 7;
    EXPECT_EQ(clock.nowMicros(), monotonic);
  }
}

}  // namespace
}  // namespace tessera::server
