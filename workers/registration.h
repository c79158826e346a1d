#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "tessera/v1/worker_service.grpc.pb.h"
#include "workers/cancellation.h"

namespace tessera::worker {

/// Parameters that the server sent at the last registration.
struct Session {
  int64_t generation = 0;     ///< increases with each registration
  Milliseconds lease{0};      ///< duration of a task lease without renewal
  Milliseconds heartbeat{0};  ///< interval between heartbeats
};

/// Keeps the worker registered across restarts of the server. Thread-safe.
class Registration {
 public:
  Registration(v1::WorkerService::StubInterface& stub, v1::RegisterWorkerRequest request)
      : stub_(stub), request_(std::move(request)) {}

  /// Returns the current session. If there is none, registers first, and retries with backoff until `cancellation` is
  /// cancelled (CANCELLED). FAILED_PRECONDITION if the server rejects this worker's compiler.
  absl::StatusOr<Session> session(Cancellation& cancellation);

  /// Like session(), but tries once, and returns UNAVAILABLE if another thread is registering.
  absl::StatusOr<Session> sessionNow(Cancellation& cancellation);

  /// Reports that the server of this session is gone or no longer knows this worker.
  void invalidate(int64_t generation);

 private:
  absl::StatusOr<Session> current() const;
  absl::StatusOr<Session> registerOnce(Cancellation& cancellation);

  v1::WorkerService::StubInterface& stub_;
  const v1::RegisterWorkerRequest request_;
  std::mutex registering_;    // held during a registration; guards generation_
  mutable std::mutex mutex_;  // guards session_
  std::optional<Session> session_;
  int64_t generation_ = 0;
};

}  // namespace tessera::worker
