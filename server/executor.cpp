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
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      return;
    }
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Executor::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace tessera::server
