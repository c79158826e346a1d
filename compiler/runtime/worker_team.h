#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace tessera::compiler {

/// A fixed team of threads, the caller of run() being number 0. Started by the constructor, ended by the destructor;
/// run() does not allocate and makes no system call but futex. One run at a time.
///
/// Each thread has a share of every phase: the same part of the grid each time, so that it finds what it wrote in its
/// own cache. It takes the first half of it at once, the rest in smaller chunks, and then chunks of the others' shares.
/// A phase ends with its work, not with its threads: one that has lost its core is waited for only as long as it is
/// within a chunk.
class WorkerTeam {
 public:
  /// Phases, one after another; some perhaps again and again.
  struct Job {
    std::span<const int64_t> grids;  ///< number of independent items of each phase
    /// Does items [low, high) of a phase. Disjoint ranges of one phase run at the same time.
    void (*work)(void* context, size_t phase, int thread, int64_t low, int64_t high);
    /// Called after each phase and before the next by the thread that ended it: the phase to run next, or the number of
    /// phases to end. Null: they run in their order.
    size_t (*next)(void* context, size_t phase);
    void* context;
    size_t first = 0;  ///< the phase to begin with
  };

  /// Throws std::system_error when the system has no more threads.
  explicit WorkerTeam(int threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int threads() const { return threads_; }
  /// Returns when every phase has ended. What a phase wrote is visible to the next, and at last to the caller.
  void run(const Job& job);

 private:
  /// What is left of a thread's share in a round: round, number of chunks and next chunk in one word, so that a thread
  /// which comes late takes nothing of a round that it does not know.
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };

  void serve(int thread);
  void stop();
  /// Begins the first phase from `phase` on that has items, as a new round; ends the run when there is none.
  /// `phase` is the first one, or what after() returned.
  void open(size_t phase);
  size_t after(size_t phase) const { return job_.next ? job_.next(job_.context, phase) : phase + 1; }
  /// Does what is left of a round. Returns when nothing is.
  void help(int thread, uint32_t round);
  /// The next chunk of a share, or -1 when there is none or another round has begun.
  int take(int share, uint32_t round);

  const int threads_;
  const int spins_;
  // Of the round; written when it is opened, read by those who hold a chunk of it.
  Job job_{};
  size_t phase_ = 0;
  alignas(64) std::atomic<int> missing_{0};     // chunks of the round that are not done
  alignas(64) std::atomic<uint32_t> round_{0};  // changes when a phase begins, and when a run or the team ends
  std::atomic<bool> finished_{false};
  std::atomic<bool> stopping_{false};
  std::vector<Share> shares_;
  std::vector<std::thread> workers_;
};

}  // namespace tessera::compiler
