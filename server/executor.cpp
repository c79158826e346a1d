#include "server/executor.h"

#include <utility>

namespace tessera::server {

Executor::Executor(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

void Executor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

void Executor::post(std::function<void()> work) {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      return;
    }
    queue_.push_back(std::move(work));
    wakes = wakesOne();
  }
  if (wakes) {
    changed_.notify_one();
  }
}

void Executor::expect() {
  const std::lock_guard lock(mutex_);
  ++expected_;
}

void Executor::postExpected(std::function<void()> work) {
  // Under the lock: the last expected work lets stop() go on, and this with it.
  const std::lock_guard lock(mutex_);
  --expected_;
  queue_.push_back(std::move(work));
  if (wakesOne()) {
    changed_.notify_one();
  }
}

bool Executor::wakesOne() {
  if (queue_.empty() || idle_ == 0 || waking_) {
    return false;
  }
  waking_ = true;
  return true;
}

void Executor::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty()) {
      if (stopping_ && expected_ == 0) {
        changed_.notify_all();  // those that waited for what was expected
        return;
      }
      ++idle_;
      changed_.wait(lock);
      --idle_;
      waking_ = false;
    }
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    const bool wakes = wakesOne();
    lock.unlock();
    if (wakes) {
      changed_.notify_one();
    }
    work();
    work = nullptr;  // with what it holds, before the lock
    lock.lock();
  }
}

}  // namespace tessera::server
