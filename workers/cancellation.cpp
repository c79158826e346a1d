#include "workers/cancellation.h"

namespace tessera::worker {

void Cancellation::cancel(StopReason reason) {
  // Callbacks run under the lock, so that none runs after ~OnCancel() has returned.
  const std::lock_guard lock(mutex_);
  if (reason_ != StopReason::kNone) return;
  reason_ = reason;
  changed_.notify_all();
  for (const auto& callback : callbacks_) callback(reason);
}

StopReason Cancellation::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

bool Cancellation::sleepFor(Milliseconds duration) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, duration, [this] { return reason_ != StopReason::kNone; });
}

OnCancel::OnCancel(Cancellation& cancellation, std::function<void(StopReason)> callback) : cancellation_(cancellation) {
  const std::lock_guard lock(cancellation_.mutex_);
  if (cancellation_.reason_ != StopReason::kNone) callback(cancellation_.reason_);
  entry_ = cancellation_.callbacks_.insert(cancellation_.callbacks_.end(), std::move(callback));
}

OnCancel::~OnCancel() {
  const std::lock_guard lock(cancellation_.mutex_);
  cancellation_.callbacks_.erase(entry_);
}

}  // namespace tessera::worker
