#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace tessera::server {

/// Wakes callers that wait for a task or for a change of a job. The only state of the queue that exists in memory
/// alone. Thread-safe.
///
/// Callbacks run on the publishing thread without a lock held and must return at once (post the work). A callback may
/// still run while forget() returns, so it must own everything that it uses.
class Notifier {
 public:
  using Callback = std::function<void()>;
  using Token = uint64_t;  ///< never 0

  /// Increases with every publishTasks(). Read it before looking for a task, and pass it to onTasks() if there was
  /// none: a task that became ready in between wakes the waiter at once.
  uint64_t taskGeneration();
  /// Calls `wake` once: at once if the generation differs from `seen`, otherwise when this waiter is due.
  Token onTasks(uint64_t seen, Callback wake);
  /// Calls `changed` after every change of the job until forget(). Subscribe first, then read the job.
  Token onJob(const std::string& job_id, Callback changed);
  void forget(Token token);

  /// Wakes as many waiters as there are new tasks, the longest-waiting first. A woken waiter that cannot use a task
  /// calls notifyNext().
  void publishTasks(int count);
  /// Wakes one waiter that has not looked since the last task became ready, if any.
  void notifyNext();
  void publishJobs(const std::set<std::string>& job_ids);
  /// Wakes all waiters: anything may have changed.
  void publishAll();

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
  std::map<Token, TaskWaiter> task_waiters_;  ///< by age: a waiter gets a new token each time it waits
  std::map<Token, JobWaiter> job_waiters_;
  std::multimap<std::string, Token> waiters_of_job_;
};

}  // namespace tessera::server
