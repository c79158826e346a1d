#include "compiler/runtime/worker_team.h"

#include <sched.h>
#include <signal.h>

namespace tessera::compiler {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

/// Spinning only pays when every thread has a core of its own. 4096 pauses are 50 to 200 microseconds, longer
/// than nearly every phase.
int spinsFor(int threads) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 0;
  return threads <= CPU_COUNT(&cpus) ? 4096 : 0;
}

/// Waits until `value` is no longer `old`.
void await(std::atomic<uint32_t>& value, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

/// Signals are the application's: its handlers must not run on our threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

void Barrier::wait() {
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    missing_.store(threads_, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  } else {
    await(round_, round, spins_);
  }
}

WorkerTeam::WorkerTeam(int threads)
    : threads_(threads), spins_(spinsFor(threads)), barrier_(threads, spins_), finish_(threads, spins_) {
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
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void WorkerTeam::run(Work work, void* context) {
  if (threads_ == 1) return work(context, 0);
  work_ = work;
  context_ = context;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  work(context, 0);
  finish_.wait();
}

void WorkerTeam::serve(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    await(generation_, seen, spins_);
    if (stopping_) return;
    work_(context_, thread);
    finish_.wait();
  }
}

}  // namespace tessera::compiler
