#include "workers/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Cores, WhatIsTimedHasTheLentOnesForItself) {
  const std::vector<int> allowed = {0, 2, 3, 7};
  EXPECT_THAT(cpusOfTask(v1::OTHERS, 0, 1, 2, allowed), ElementsAre(0, 2));
  EXPECT_THAT(cpusOfTask(v1::MEASURING, 0, 1, 2, allowed), ElementsAre(3));
  EXPECT_THAT(cpusOfTask(v1::MEASURING, 1, 1, 2, allowed), ElementsAre(7));
  EXPECT_THAT(cpusOfTask(v1::MEASURING, 0, 2, 2, allowed), ElementsAre(3, 7));
}

TEST(Cores, OtherwiseAllOfThem) {
  EXPECT_THAT(cpusOfTask(v1::CORE_USE_UNSPECIFIED, 0, 1, 1, {0, 1}), IsEmpty());
  EXPECT_THAT(cpusOfTask(v1::WHOLE_HOST, 0, 2, 1, {0, 1}), IsEmpty());
  EXPECT_THAT(cpusOfTask(v1::OTHERS, 0, 1, 1, {0}), IsEmpty()) << "nothing would be left";
  EXPECT_THAT(cpusOfTask(v1::OTHERS, 0, 1, 0, {0, 1}), IsEmpty());
  EXPECT_THAT(cpusOfTask(v1::MEASURING, 1, 2, 2, {0, 1, 2}), IsEmpty()) << "more than the measuring cores";
}

TEST(Cores, SomeAreAllowed) { EXPECT_FALSE(allowedCpus().empty()); }

}  // namespace
}  // namespace tessera::worker
