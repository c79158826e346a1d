#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "workers/child_process.h"

namespace tessera::worker {

/// A one-way switch with several observers: for an attempt, cancelled by the server's verdict; for a worker, by a
/// signal. Thread-safe.
class Cancellation {
 public:
  /// Cancels; only the first reason is kept. Runs all callbacks on the calling thread.
  void cancel(StopReason reason);

  StopReason reason() const;
  bool cancelled() const { return reason() != StopReason::kNone; }

  /// Sleeps until the time has passed or the switch is cancelled; returns whether the whole time passed.
  bool sleepFor(Milliseconds duration);

 private:
  friend class OnCancel;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StopReason reason_ = StopReason::kNone;
  std::list<std::function<void(StopReason)>> callbacks_;
};

/// Runs a callback when `cancellation` is cancelled, immediately if it already is. The destructor unregisters it and
/// waits for a running callback. The callback must not access `cancellation`.
class OnCancel {
 public:
  OnCancel(Cancellation& cancellation, std::function<void(StopReason)> callback);
  ~OnCancel();
  OnCancel(const OnCancel&) = delete;
  OnCancel& operator=(const OnCancel&) = delete;

 private:
  Cancellation& cancellation_;
  std::list<std::function<void(StopReason)>>::iterator entry_;
};

}  // namespace tessera::worker
