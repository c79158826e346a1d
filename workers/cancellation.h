#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "workers/child_process.h"

namespace tessera::worker {

/// A one-way switch that many parties watch: an attempt's end by the server's verdict, a worker's end by a
/// signal. Thread-safe.
class Cancellation {
 public:
  /// Throws the switch; the first reason counts. Runs all callbacks on the calling thread.
  void cancel(StopReason reason);

  StopReason reason() const;
  bool cancelled() const { return reason() != StopReason::kNone; }

  /// Sleeps unless and until cancelled. Returns whether the whole time passed.
  bool sleepFor(Milliseconds duration);

 private:
  friend class OnCancel;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StopReason reason_ = StopReason::kNone;
  std::list<std::function<void(StopReason)>> callbacks_;
};

/// Runs a callback when `cancellation` is thrown, at once when it has been, for as long as this object
/// lives: its destructor waits for a running callback. The callback must not touch `cancellation`.
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
