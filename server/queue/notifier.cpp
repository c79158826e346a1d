#include "server/queue/notifier.h"

#include <algorithm>
#include <utility>

namespace tessera::server {

uint64_t Notifier::taskGeneration() {
  const std::lock_guard lock(mutex_);
  return generation_;
}

Notifier::Token Notifier::onTasks(uint64_t seen, Callback wake) {
  Token token = 0;
  {
    const std::lock_guard lock(mutex_);
    token = next_token_++;
    if (generation_ == seen) {
      task_waiters_.emplace(token, TaskWaiter{seen, std::move(wake)});
      return token;
    }
  }
  wake();
  return token;
}

Notifier::Token Notifier::onJob(const std::string& job_id, Callback changed) {
  const std::lock_guard lock(mutex_);
  const Token token = next_token_++;
  job_waiters_.emplace(token, JobWaiter{job_id, std::move(changed)});
  waiters_of_job_.emplace(job_id, token);
  return token;
}

void Notifier::forget(Token token) {
  const std::lock_guard lock(mutex_);
  task_waiters_.erase(token);
  const auto waiter = job_waiters_.find(token);
  if (waiter == job_waiters_.end()) {
    return;
  }
  const auto [first, last] = waiters_of_job_.equal_range(waiter->second.job_id);
  for (auto it = first; it != last; ++it) {
    if (it->second == token) {
      waiters_of_job_.erase(it);
      break;
    }
  }
  job_waiters_.erase(waiter);
}

void Notifier::publishTasks(int count) {
  if (count <= 0) {
    return;
  }
  std::vector<Callback> woken;
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    while (count-- > 0 && !task_waiters_.empty()) {
      // Tokens increase, so the first one has waited longest.
      woken.push_back(std::move(task_waiters_.begin()->second.wake));
      task_waiters_.erase(task_waiters_.begin());
    }
  }
  for (const Callback& wake : woken) {
    wake();
  }
}

void Notifier::notifyNext() {
  Callback wake;
  {
    const std::lock_guard lock(mutex_);
    for (auto waiter = task_waiters_.begin(); waiter != task_waiters_.end() && !wake; ++waiter) {
      // A waiter of the current generation has looked after the last task became ready, and found nothing.
      if (waiter->second.seen != generation_) {
        wake = std::move(waiter->second.wake);
        task_waiters_.erase(waiter);
        break;
      }
    }
  }
  if (wake) {
    wake();
  }
}

void Notifier::publishJobs(const std::set<std::string>& job_ids) {
  std::vector<Callback> woken;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& id : job_ids) {
      const auto [first, last] = waiters_of_job_.equal_range(id);
      for (auto it = first; it != last; ++it) {
        woken.push_back(job_waiters_.at(it->second).changed);
      }
    }
  }
  for (const Callback& changed : woken) {
    changed();
  }
}

void Notifier::publishAll() {
  std::set<std::string> jobs;
  int waiters = 0;
  {
    const std::lock_guard lock(mutex_);
    waiters = static_cast<int>(task_waiters_.size());
    for (const auto& [job, token] : waiters_of_job_) {
      jobs.insert(job);
    }
  }
  publishTasks(std::max(waiters, 1));
  publishJobs(jobs);
}

}  // namespace tessera::server
