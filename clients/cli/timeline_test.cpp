#include "clients/cli/timeline.h"

#include <gtest/gtest.h>

namespace tessera::client {
namespace {

TEST(Timeline, TheChartHasALaneForEach) {
  const Gantt gantt = ganttOf("j1", {{"w1", "search", "t1", 1, 1e6, 2e6, "", 0},
                                     {"w1", "build", "t2", 1, 2.5e6, 3.5e6, "", 0},
                                     {"w1", "measure", "t3", 1, 2e6, 4e6, "", 1},
                                     {"w2", "build", "t4", 1, 1.5e6, 3e6, "it crashed", 0}});
  EXPECT_EQ(gantt.lanes, (std::vector<std::string>{"w1", "", "w2"}));
  ASSERT_EQ(gantt.bars.size(), 4U);
  EXPECT_EQ(gantt.bars[3].lane, 2);
  EXPECT_TRUE(gantt.bars[3].failed);
  EXPECT_DOUBLE_EQ(gantt.bars[0].from, 0);
}

}  // namespace
}  // namespace tessera::client
