#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tessera::compiler {

/// Threads meet here: wait() returns when all have called it. Reusable at once. Spins briefly, since phases
/// take microseconds, then sleeps in the kernel.
class Barrier {
 public:
  Barrier(int threads, int spins) : threads_(threads), spins_(spins), missing_(threads) {}
  void wait();

 private:
  const int threads_;
  const int spins_;
  alignas(64) std::atomic<int> missing_;
  alignas(64) std::atomic<uint32_t> round_{0};
};

/// A fixed team of threads, the caller of run() being number 0. Started by the constructor, ended by the
/// destructor; neither run() nor the barrier allocates. One run at a time.
class WorkerTeam {
 public:
  using Work = void (*)(void* context, int thread);

  /// Throws std::system_error when the system has no more threads.
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int threads() const { return threads_; }
  /// Calls work(context, i) on each thread i and returns when all have ended.
  void run(Work work, void* context);
  /// To be called by every thread of the team within `work`, equally often.
  void barrier() {
    if (threads_ > 1) barrier_.wait();
  }

 private:
  void serve(int thread);
  void stop();

  const int threads_;
  const int spins_;
  Barrier barrier_;
  Barrier finish_;
  Work work_ = nullptr;
  void* context_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::vector<std::thread> workers_;
};

}  // namespace tessera::compiler
