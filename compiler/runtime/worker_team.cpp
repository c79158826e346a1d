#include "compiler/runtime/worker_team.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>

#include "compiler/runtime/faults.h"

namespace tessera::compiler {
namespace {

// after a share's first half: each chunk that others can take is an eighth of the share
constexpr int kSmallChunks = 4;
constexpr uint64_t kByte = 0xff;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

/// Spinning pays only if every thread has a core of its own. 4096 pauses are 50 to 200 microseconds, longer than nearly
/// every phase.
int spinsFor(int threads) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 0;
  return threads <= CPU_COUNT(&cpus) ? 4096 : 0;
}

/// Waits until `value` differs from `old`.
void await(std::atomic<uint32_t>& value, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

/// Blocks signals in the team's threads, since the application's handlers must not run there. Signals caused by an
/// instruction stay unblocked: they are delivered to the thread itself, and blocking them would end the process without
/// calling a handler.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_ = {};
};

/// First item of part `index` of `parts` nearly equal parts of [0, extent).
int64_t partBegin(int64_t extent, int index, int parts) {
  return static_cast<int64_t>(static_cast<__int128>(extent) * index / parts);
}

int chunksOf(int64_t items) {
  return items == 0 ? 0 : 1 + static_cast<int>(std::min<int64_t>(items / 2, kSmallChunks));
}

/// First item of a chunk of a share of `items` items; for the chunk after the last: `items`.
int64_t chunkBegin(int64_t items, int chunk) {
  if (chunk == 0) return 0;
  const int64_t first = items - items / 2;
  return items / 2 == 0 ? items : first + partBegin(items / 2, chunk - 1, chunksOf(items) - 1);
}

}  // namespace

WorkerTeam::WorkerTeam(int threads)
    : threads_(threads), spins_(spinsFor(threads)), shares_(static_cast<size_t>(threads)) {
  const BlockedSignals blocked;  // inherited by the threads
  workers_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
  } catch (...) {
    stop();
    throw;
  }
}

WorkerTeam::~WorkerTeam() { stop(); }

void WorkerTeam::stop() {
  // The release of round_ below publishes it.
  stopping_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void WorkerTeam::run(const Job& job) {
  job_ = job;
  // Without other threads nothing is shared, and the whole grid is one chunk.
  if (threads_ == 1) {
    for (size_t phase = job.first; phase < job.grids.size(); phase = after(phase)) {
      if (job.grids[phase] > 0) job.work(job.context, phase, 0, 0, job.grids[phase]);
    }
    return;
  }
  finished_.store(false, std::memory_order_relaxed);
  open(job.first);
  for (;;) {
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (finished_.load(std::memory_order_acquire)) return;
    help(0, round);
    await(round_, round, spins_);
  }
}

void WorkerTeam::serve(int thread) {
  const HandlerStack handler_stack;
  for (uint32_t round = 0;;) {
    await(round_, round, spins_);
    round = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    help(thread, round);
  }
}

void WorkerTeam::open(size_t phase) {
  while (phase < job_.grids.size() && job_.grids[phase] == 0) phase = after(phase);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  if (phase == job_.grids.size()) {
    finished_.store(true, std::memory_order_release);
  } else {
    phase_ = phase;
    const int64_t grid = job_.grids[phase];
    const auto chunks = [&](int share) {
      return chunksOf(partBegin(grid, share + 1, threads_) - partBegin(grid, share, threads_));
    };
    int missing = 0;
    for (int i = 0; i < threads_; ++i) missing += chunks(i);
    // Before any share opens: a thread that takes a chunk subtracts from it at once.
    missing_.store(missing, std::memory_order_relaxed);
    for (int i = 0; i < threads_; ++i) {
      // Round, number of chunks and next chunk in one word: a thread that is late for a round cannot take chunks of
      // the next one.
      const uint64_t word = uint64_t{round} << 16 | static_cast<uint64_t>(chunks(i)) << 8;
      shares_[static_cast<size_t>(i)].word.store(word, std::memory_order_release);
    }
  }
  round_.store(round, std::memory_order_release);
  round_.notify_all();
}

int WorkerTeam::take(int share, uint32_t round) {
  std::atomic<uint64_t>& next = shares_[static_cast<size_t>(share)].word;
  uint64_t word = next.load(std::memory_order_acquire);
  // A failed exchange has reloaded the word.
  while (word >> 16 == round && (word & kByte) < (word >> 8 & kByte)) {
    if (next.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return static_cast<int>(word & kByte);
    }
  }
  return -1;
}

void WorkerTeam::help(int thread, uint32_t round) {
  for (int i = 0; i < threads_; ++i) {
    // The thread's own share first, then those of the others.
    const int share = (thread + i) % threads_;
    int done = 0;  // added to missing_ once, because all threads write to that cache line
    for (int chunk; (chunk = take(share, round)) >= 0; ++done) {
      const int64_t grid = job_.grids[phase_];
      const int64_t begin = partBegin(grid, share, threads_), items = partBegin(grid, share + 1, threads_) - begin;
      job_.work(job_.context, phase_, thread, begin + chunkBegin(items, chunk), begin + chunkBegin(items, chunk + 1));
    }
    if (done == 0 || missing_.fetch_sub(done, std::memory_order_acq_rel) > done) continue;
    // These were the last chunks: no other thread holds one, so the state of the round may change.
    open(after(phase_));
    return;
  }
}

}  // namespace tessera::compiler
