#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/v1/worker_service.grpc.pb.h"
#include "workers/cancellation.h"
#include "workers/registration.h"

namespace tessera::worker {

/// Extends the lease of one attempt from a separate thread, sends its progress, and cancels the attempt when the server
/// requests it or when the lease can no longer be valid.
///
/// The lease is counted from the time at which the last answered heartbeat was sent; the server's clock started no
/// earlier. While the task runs, failing heartbeats are tolerated for the length of the lease. Once its result is
/// complete they are tolerated without limit, because the fencing token decides whether the result is accepted.
class Heartbeat {
 public:
  Heartbeat(v1::WorkerService::StubInterface& stub, Registration& registration, const Session& session,
            const std::string& worker_id, const v1::Lease& lease, Cancellation& attempt);
  ~Heartbeat();

  /// Progress for the next heartbeat; the newest replaces earlier ones.
  void setProgress(const v1::Progress& progress);
  /// The task's process has started or ended; its run deadline counts in between.
  void setTaskRunning(bool runs);
  /// From now on an unreachable server does not cancel the attempt.
  void setResultComplete();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  bool waitForTurn(Clock::time_point last_sent);
  void beat();

  v1::WorkerService::StubInterface& stub_;
  Registration& registration_;
  Session session_;
  const Milliseconds lease_;
  const v1::HeartbeatRequest identity_;
  Cancellation& attempt_;
  Cancellation stopping_;  // ends a call in progress on destruction

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool complete_ = false;
  bool has_progress_ = false;
  std::optional<Clock::time_point> running_since_;
  v1::Progress progress_;
  Clock::time_point valid_until_;  // used only by the thread once it runs
  std::thread thread_;
};

}  // namespace tessera::worker
