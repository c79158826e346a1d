#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "proto/channel/identity.h"
#include "tessera/v1/worker_service.grpc.pb.h"
#include "workers/attempt.h"
#include "workers/backoff.h"
#include "workers/cancellation.h"
#include "workers/self_check.h"

namespace tessera::worker {

struct WorkerOptions {
  std::string server;
  Identity credential;  ///< credentials for the server
  std::string scratch;
  std::string blobs;  ///< the server's blob folder, if on the same disk as `scratch`; empty: blobs are streamed
  int64_t cache_bytes = int64_t{8} << 30;
  int64_t step_cache_bytes = int64_t{64} << 20;  ///< memory for cached step results (shared_step_cache.h); 0: none
  int64_t min_free_bytes = int64_t{64} << 20;    ///< minimum free space of the scratch disk to accept tasks
  TaskRunner runner;
  v1::RegisterWorkerRequest identity;  ///< id, host, compiler version, operators, kinds, slots
  /// How long the server holds a lease request when it has no task. Draining an idle worker takes up to this time,
  /// unless its server drains as well.
  Milliseconds lease_wait{2'000};
  /// A worker that has had no task for this long drains; 0: never.
  std::chrono::milliseconds idle_limit{0};
};

/// The lease loop. Each slot has one thread, which leases and executes tasks.
class Worker {
 public:
  explicit Worker(WorkerOptions options);

  /// Runs until drained or stopped. Returns the process's exit code (proto/support/worker_exit.h).
  int run();

  /// Accepts no more tasks; run() returns when the current ones are reported. Callable from any thread.
  void drain();
  /// Stops the current tasks, gives them back to the server, and returns within seconds. Callable from any thread.
  void stop();

 private:
  void work(const AttemptEnvironment& environment);
  bool lease(const AttemptEnvironment& environment, const Session& session, Backoff& pause,
             v1::LeaseTaskResponse& response);
  void fail(int exit_code);
  bool isIdleTooLong() const;
  /// Logs `trouble`, the reason why this worker accepts no tasks: when it begins, and every ten minutes while it lasts.
  /// If `trouble` is empty, logs once that the previous trouble has ended. Callable from any slot.
  void logTrouble(const std::string& trouble);

  WorkerOptions options_;
  Cancellation draining_;
  Cancellation stopping_;
  std::unique_ptr<SelfCheck> self_check_;  ///< for the scratch folder that run() opens
  std::atomic<int> exit_code_{0};
  std::atomic<int> running_{0};  ///< attempts in all slots
  std::atomic<std::chrono::steady_clock::duration> idle_since_{std::chrono::steady_clock::now().time_since_epoch()};
  std::mutex trouble_mutex_;
  std::optional<std::chrono::steady_clock::time_point> trouble_logged_;
};

}  // namespace tessera::worker
