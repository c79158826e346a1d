#include "clients/cli/latency.h"

#include <gtest/gtest.h>

namespace tessera::client {
namespace {

TEST(LatencyTest, SummarizesInAnyOrder) {
  const Latency latency = summarize({5, 1, 4, 2, 3});
  EXPECT_EQ(latency.min, 1);
  EXPECT_EQ(latency.median, 3);
  EXPECT_EQ(latency.max, 5);
  EXPECT_EQ(latency.p90, 5);
  EXPECT_EQ(latency.runs, 5);
}

TEST(LatencyTest, MedianOfAnEvenCountIsTheMeanOfTheMiddle) { EXPECT_EQ(summarize({1, 2, 3, 10}).median, 2.5); }

TEST(LatencyTest, PercentilesUseTheNearestRank) {
  std::vector<double> times;
  for (int i = 1; i <= 100; ++i) times.push_back(i);
  EXPECT_EQ(summarize(times).p90, 90);
  EXPECT_EQ(summarize(times).p99, 99);
}

TEST(LatencyTest, OneAndNone) {
  EXPECT_EQ(summarize({7}).p99, 7);
  EXPECT_EQ(summarize({}).runs, 0);
}

}  // namespace
}  // namespace tessera::client
