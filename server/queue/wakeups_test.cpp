#include "server/queue/wakeups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TaskWaiters : public testing::Test {
 protected:
  /// Waits as a call does that has just looked and found nothing.
  void wait(int name) {
    wakeups_.onTasks(wakeups_.taskGeneration(), [this, name] { woken_.push_back(name); });
  }
  std::vector<int> take() { return std::exchange(woken_, {}); }

  Wakeups wakeups_;
  std::vector<int> woken_;
};

TEST_F(TaskWaiters, AsManyAreWokenAsThereAreTasksTheLongestWaitingFirst) {
  for (int i = 0; i < 5; ++i) wait(i);
  wakeups_.publishTasks(1);
  EXPECT_THAT(take(), ElementsAre(0));
  wakeups_.publishTasks(2);
  EXPECT_THAT(take(), ElementsAre(1, 2));
  wakeups_.publishTasks(0);
  EXPECT_THAT(take(), IsEmpty());
  wakeups_.publishTasks(9);
  EXPECT_THAT(take(), ElementsAre(3, 4));
}

TEST_F(TaskWaiters, OneThatCannotUseATaskPassesItOnUntilAllHaveLooked) {
  for (int i = 0; i < 3; ++i) wait(i);
  wakeups_.publishTasks(1);
  EXPECT_THAT(take(), ElementsAre(0));
  wakeups_.passOn();
  wait(0);  // it waits again: of this task it knows
  EXPECT_THAT(take(), ElementsAre(1));
  wakeups_.passOn();
  wait(1);
  EXPECT_THAT(take(), ElementsAre(2));
  wakeups_.passOn();
  wait(2);
  wakeups_.passOn();
  EXPECT_THAT(take(), IsEmpty());
}

TEST_F(TaskWaiters, ATaskThatComesBetweenTheLookAndTheWaitWakesAtOnce) {
  const uint64_t seen = wakeups_.taskGeneration();
  wakeups_.publishTasks(1);
  wakeups_.onTasks(seen, [this] { woken_.push_back(7); });
  EXPECT_THAT(take(), ElementsAre(7));
}

TEST_F(TaskWaiters, AForgottenOneIsNotWoken) {
  const Wakeups::Token token = wakeups_.onTasks(wakeups_.taskGeneration(), [this] { woken_.push_back(1); });
  wait(2);
  wakeups_.forget(token);
  wakeups_.publishTasks(1);
  EXPECT_THAT(take(), ElementsAre(2));
}

}  // namespace
}  // namespace tessera::server
