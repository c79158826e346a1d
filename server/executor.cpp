#include "server/executor.h"

#include <utility>

namespace tessera::server {

Executor::Executor(int threads) : beds_(threads) {
  for (Bed& bed : beds_) {
    threads_.emplace_back([this, &bed] { run(bed); });
  }
}

void Executor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wakeAll();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

void Executor::post(std::function<void()> work) {
  Bed* bed = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      return;
    }
    queue_.push_back(std::move(work));
    bed = nextToWake();
  }
  if (bed != nullptr) {
    bed->bell.notify_one();
  }
}

void Executor::expect() {
  const std::lock_guard lock(mutex_);
  ++expected_;
}

void Executor::postExpected(std::function<void()> work) {
  // Under the lock: stop() may return, and destroy this object, once the last expected work is posted.
  const std::lock_guard lock(mutex_);
  --expected_;
  queue_.push_back(std::move(work));
  if (Bed* bed = nextToWake()) {
    bed->bell.notify_one();
  }
}

Executor::Bed* Executor::nextToWake() {
  if (queue_.empty() || asleep_.empty() || waking_) {
    return nullptr;
  }
  Bed* bed = asleep_.back();
  asleep_.pop_back();
  bed->rung = true;
  waking_ = true;
  return bed;
}

void Executor::wakeAll() {
  for (Bed* bed : asleep_) {
    bed->rung = true;
    bed->bell.notify_one();
  }
  asleep_.clear();
}

void Executor::run(Bed& bed) {
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty()) {
      if (stopping_ && expected_ == 0) {
        wakeAll();  // threads that wait for expected work
        return;
      }
      bed.rung = false;
      asleep_.push_back(&bed);
      bed.bell.wait(lock, [&] { return bed.rung; });
      waking_ = false;
    }
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    Bed* next = nextToWake();
    lock.unlock();
    if (next != nullptr) {
      next->bell.notify_one();
    }
    work();
    work = nullptr;  // destroys what it captured before the lock is taken
    lock.lock();
  }
}

}  // namespace tessera::server
