#include "clients/cpp/silence_watch.h"

#include <algorithm>

namespace tessera::client {

SlowCallMonitor::~SlowCallMonitor() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

SlowCallMonitor::Call::Call(SlowCallMonitor* watch, Milliseconds timeout) : watch_(watch) {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  // The thread checks this call after the earlier one's time has passed.
  const bool waits = std::ranges::any_of(watch_->silences_, [](const Silence& each) { return !each.told; });
  entry_ = watch_->silences_.insert(watch_->silences_.end(), {std::chrono::steady_clock::now(), timeout});
  if (!watch_->thread_.joinable()) watch_->thread_ = std::thread([watch] { watch->run(); });
  if (!waits) watch_->changed_.notify_all();
}

SlowCallMonitor::Call::~Call() {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  watch_->silences_.erase(entry_);
}

void SlowCallMonitor::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const auto next = std::ranges::find_if(silences_, [](const Silence& each) { return !each.told; });
    if (next == silences_.end()) {
      changed_.wait(lock);
    } else if (const auto when = next->since + kSlowCallThreshold; std::chrono::steady_clock::now() < when) {
      changed_.wait_until(lock, when);
    } else {
      next->told = true;
      const Milliseconds left = next->timeout - kSlowCallThreshold;
      lock.unlock();
      tell_(left);
      lock.lock();
    }
  }
}

}  // namespace tessera::client
