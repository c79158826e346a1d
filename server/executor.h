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
  void run();
  /// Whether a thread is to be woken for what is queued. One at a time is on its way: it wakes the next one if there is
  /// work left, so short pieces of work that come together are done by few threads and not each by one of its own.
  bool wakesOne();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  int expected_ = 0;
  int idle_ = 0;         ///< threads that wait for work
  bool waking_ = false;  ///< one of them has been called and is not there yet
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server
