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

  /// Runs what is still queued, then ends the threads; what is posted later is dropped. Idempotent.
  void stop();

  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::server
