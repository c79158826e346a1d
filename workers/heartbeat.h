#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/v1/worker_service.grpc.pb.h"
#include "workers/cancellation.h"
#include "workers/registration.h"

namespace tessera::worker {

/// Prolongs the lease of one attempt from a thread of its own, carries its progress, and throws the
/// attempt's switch when the server says so or when the lease can no longer be valid.
///
/// The lease counts from the moment the last answered heartbeat was sent: the server's clock started no
/// earlier. Failing heartbeats are tolerated for that long while the task computes. Once its result is
/// complete they are tolerated without limit: the fencing token decides whether the result still counts.
class Heartbeat {
 public:
  Heartbeat(v1::WorkerService::StubInterface& stub, Registration& registration, const Session& session,
            const std::string& worker_id, const v1::Lease& lease, Cancellation& attempt);
  ~Heartbeat();

  /// Progress to send soon; the newest counts.
  void setProgress(const v1::Progress& progress);
  /// Its process has begun, or ended: its run deadline counts in between.
  void taskRuns(bool runs);
  /// From now on an unreachable server does not end the attempt.
  void resultIsComplete();

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
  Cancellation stopping_;  // ends a call in progress when this object goes

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool complete_ = false;
  bool has_progress_ = false;
  std::optional<Clock::time_point> running_since_;
  v1::Progress progress_;
  Clock::time_point valid_until_;  // touched by the thread alone, once it runs
  std::thread thread_;
};

}  // namespace tessera::worker
