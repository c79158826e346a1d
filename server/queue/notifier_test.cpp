#include "server/queue/notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TaskWaiters : public testing::Test {
 protected:
  /// Waits like a call that has just found no task.
  void wait(int name) {
    notifier_.onTasks(notifier_.taskGeneration(), [this, name] { woken_.push_back(name); });
  }
  std::vector<int> take() { return std::exchange(woken_, {}); }

  Notifier notifier_;
  std::vector<int> woken_;
};

TEST_F(TaskWaiters, AsManyAreWokenAsThereAreTasksTheLongestWaitingFirst) {
  for (int i = 0; i < 5; ++i) wait(i);
  notifier_.publishTasks(1);
  EXPECT_THAT(take(), ElementsAre(0));
  notifier_.publishTasks(2);
  EXPECT_THAT(take(), ElementsAre(1, 2));
  notifier_.publishTasks(0);
  EXPECT_THAT(take(), IsEmpty());
  notifier_.publishTasks(9);
  EXPECT_THAT(take(), ElementsAre(3, 4));
}

TEST_F(TaskWaiters, OneThatCannotUseATaskPassesItOnUntilAllHaveLooked) {
  for (int i = 0; i < 3; ++i) wait(i);
  notifier_.publishTasks(1);
  EXPECT_THAT(take(), ElementsAre(0));
  notifier_.notifyNext();
  wait(0);  // it waits again, and knows of this task
  EXPECT_THAT(take(), ElementsAre(1));
  notifier_.notifyNext();
  wait(1);
  EXPECT_THAT(take(), ElementsAre(2));
  notifier_.notifyNext();
  wait(2);
  notifier_.notifyNext();
  EXPECT_THAT(take(), IsEmpty());
}

TEST_F(TaskWaiters, ATaskThatComesBetweenTheLookAndTheWaitWakesAtOnce) {
  const uint64_t seen = notifier_.taskGeneration();
  notifier_.publishTasks(1);
  notifier_.onTasks(seen, [this] { woken_.push_back(7); });
  EXPECT_THAT(take(), ElementsAre(7));
}

TEST_F(TaskWaiters, AForgottenOneIsNotWoken) {
  const Notifier::Token token = notifier_.onTasks(notifier_.taskGeneration(), [this] { woken_.push_back(1); });
  wait(2);
  notifier_.forget(token);
  notifier_.publishTasks(1);
  EXPECT_THAT(take(), ElementsAre(2));
}

}  // namespace
}  // namespace tessera::server
