#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace tessera::compiler {

/// A fixed team of threads; the caller of run() is number 0. The constructor starts the threads, the destructor joins
/// them. run() does not allocate and makes no system call but futex. One run at a time.
///
/// Each thread has a share of every phase: the same part of the grid each time, so that its data stays in its own
/// cache. It takes the first half of its share at once, the rest in smaller chunks, and then chunks of other threads'
/// shares. A phase ends when its work is done, not when all threads arrive: a thread that has lost its core delays the
/// others only while it is within a chunk.
class WorkerTeam {
 public:
  /// Phases in sequence; a phase may run several times.
  struct Job {
    std::span<const int64_t> grids;  ///< number of independent items of each phase
    /// Processes items [low, high) of a phase. Disjoint ranges of one phase run concurrently.
    void (*work)(void* context, size_t phase, int thread, int64_t low, int64_t high);
    /// Called after each phase and before the next one, by the thread that completed it. Returns the phase to run next,
    /// or the number of phases to end the run. Null: phases run in order.
    size_t (*next)(void* context, size_t phase);
    void* context;
    size_t first = 0;  ///< the phase to begin with
  };

  /// Throws std::system_error when the system cannot create another thread.
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int threads() const { return threads_; }
  /// Returns when every phase has ended. The writes of a phase are visible to the next phase, and finally to the
  /// caller.
  void run(const Job& job);

 private:
  /// The rest of a thread's share in a round. A round is one execution of a phase. Round number, number of chunks and
  /// next chunk are one word, so that a late thread cannot take a chunk of a round that it has not joined.
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };

  void serve(int thread);
  void stop();
  /// Opens the first phase at or after `phase` that has items as a new round; ends the run if there is none. `phase` is
  /// the first one, or a result of after().
  void open(size_t phase);
  size_t after(size_t phase) const { return job_.next ? job_.next(job_.context, phase) : phase + 1; }
  /// Processes the remaining chunks of a round; returns when there are none.
  void help(int thread, uint32_t round);
  /// Takes the next chunk of a share; -1 when there is none or another round has begun.
  int take(int share, uint32_t round);

  const int threads_;
  const int spins_;
  // State of the round: written when it is opened, read by threads that hold a chunk of it.
  Job job_{};
  size_t phase_ = 0;
  alignas(64) std::atomic<int> missing_{0};     // chunks of the round that are not finished
  alignas(64) std::atomic<uint32_t> round_{0};  // changes when a phase begins, and when a run or the team ends
  std::atomic<bool> finished_{false};
  std::atomic<bool> stopping_{false};
  std::vector<Share> shares_;
  std::vector<std::thread> workers_;
};

}  // namespace tessera::compiler
