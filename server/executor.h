#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::server {

/// A fixed pool of threads for blocking work (commits, blob files), for which gRPC's threads must not wait. Thread-
/// safe.
class Executor {
 public:
  explicit Executor(int threads);
  ~Executor() { stop(); }

  /// Runs queued and expected work, then ends the threads. Drops work that is posted later. Idempotent.
  void stop();

  void post(std::function<void()> work);

  /// Announces work that will follow: the caller must call postExpected() exactly once.
  void expect();
  void postExpected(std::function<void()> work);

 private:
  /// A thread waiting for work.
  struct Bed {
    std::condition_variable bell;
    bool rung = false;
  };

  void run(Bed& bed);
  /// The thread to wake for queued work; null: none. Only one woken thread is on its way at a time, and it wakes the
  /// next one if work remains, so that a burst of short work uses few threads instead of one each. The last thread to
  /// sleep is woken first, since its caches are still warm.
  Bed* nextToWake();
  void wakeAll();

  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
  std::deque<Bed> beds_;
  std::vector<Bed*> asleep_;
  bool waking_ = false;  ///< a woken thread has not started yet
  int expected_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server
