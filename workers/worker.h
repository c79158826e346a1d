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
  Identity credential;  ///< who this worker is to the server
  std::string scratch;
  std::string blobs;  ///< the server's folder of them, where both are on one disk; empty: blobs are streamed
  int64_t cache_bytes = int64_t{8} << 30;
  int64_t known_steps_bytes = int64_t{64} << 20;  ///< of results of steps (known_steps.h), in memory; 0: none are kept
  int64_t min_free_bytes = int64_t{64} << 20;     ///< of the scratch folder's disk, below which it takes no task
  TaskRunner runner;
  v1::RegisterWorkerRequest identity;  ///< id, host, compiler version, operators, kinds, slots
  Milliseconds poll{2'000};            ///< how long a question for work waits at the server; bounds an idle drain
};

/// The lease loop: as many threads as there are slots, each asking for a task and working it off.
class Worker {
 public:
  explicit Worker(WorkerOptions options);

  /// Works until drained or stopped. Returns the process's exit code (proto/support/worker_exit.h).
  int run();

  /// Takes no more tasks; run() returns when the current ones are reported. From any thread.
  void drain();
  /// Ends the current tasks and returns at once. From any thread.
  void stop();

 private:
  void work(const AttemptEnvironment& environment);
  bool lease(const AttemptEnvironment& environment, const Session& session, Backoff& pause,
             v1::LeaseTaskResponse& response);
  void fail(int exit_code);
  /// Logs what keeps this machine from work, and its end: when it begins and every ten minutes. From any slot.
  void tellTrouble(const std::string& trouble);

  WorkerOptions options_;
  Cancellation draining_;
  Cancellation stopping_;
  std::unique_ptr<SelfCheck> self_check_;  ///< of the scratch folder that run() opens
  std::atomic<int> exit_code_{0};
  std::mutex trouble_mutex_;
  std::optional<std::chrono::steady_clock::time_point> trouble_told_;
};

}  // namespace tessera::worker
