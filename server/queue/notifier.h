#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace tessera::server {

/// Who waits for what: the only state of the scheduler that lives in memory alone. Thread-safe.
///
/// Callbacks run on the publishing thread without a lock held and must return at once (post the work).
/// One may still run while forget() returns; what it captures must own what it touches.
class Notifier {
 public:
  using Callback = std::function<void()>;
  using Token = uint64_t;  ///< never 0

  /// Rises with every publishTasks(). Read it before looking for a task, pass it to onTasks() when there
  /// was none: a task that became ready in between wakes the waiter at once.
  uint64_t taskGeneration();
  /// Calls `wake` once: at once if the generation differs from `seen`, else when it is this waiter's turn.
  Token onTasks(uint64_t seen, Callback wake);
  /// Calls `changed` after every change of the job, until forgotten. Subscribe first, then read.
  Token onJob(const std::string& job_id, Callback changed);
  void forget(Token token);

  /// Wakes as many waiters as there are new tasks, those that wait longest. One that is woken and finds nothing it can
  /// do, or has no use for it any more, calls notifyNext().
  void publishTasks(int count);
  /// Wakes one waiter that has not looked since the last task became ready, if there is one.
  void notifyNext();
  void publishJobs(const std::set<std::string>& job_ids);

 private:
  struct JobWaiter {
    std::string job_id;
    Callback changed;
  };
  struct TaskWaiter {
    uint64_t seen;
    Callback wake;
  };
  std::mutex mutex_;
  uint64_t generation_ = 0;
  Token next_token_ = 1;
  std::map<Token, TaskWaiter> task_waiters_;  ///< by age: a waiter's token is given anew each time it waits
  std::map<Token, JobWaiter> job_waiters_;
  std::multimap<std::string, Token> waiters_of_job_;
};

}  // namespace tessera::server
