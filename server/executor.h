#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::server {

/// A fixed pool for work that blocks (commits, blob files), which gRPC's own threads must not wait for.
class Executor {
 public:
  explicit Executor(int threads);
  ~Executor() { stop(); }

  /// Runs what is still queued and what is expected, then ends the threads; what is posted later is dropped.
  /// Idempotent.
  void stop();

  void post(std::function<void()> work);

  /// Work will follow once something else has happened: whoever calls this calls postExpected(), once.
  void expect();
  void postExpected(std::function<void()> work);

 private:
  /// Where a thread waits for work.
  struct Bed {
    std::condition_variable bell;
    bool rung = false;
  };

  void run(Bed& bed);
  /// Whom to wake for what is queued; null: nobody. One at a time is on its way: it wakes the next one if there is work
  /// left, so short pieces of work that come together are done by few threads and not each by one of its own. Who went
  /// to sleep last is woken first: what it works with is still in the caches.
  Bed* nextToWake();
  void wakeAll();

  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
  std::deque<Bed> beds_;
  std::vector<Bed*> asleep_;
  bool waking_ = false;  ///< somebody has been woken and is not there yet
  int expected_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server
