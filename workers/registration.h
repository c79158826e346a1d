#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "tessera/v1/worker_service.grpc.pb.h"
#include "workers/cancellation.h"

namespace tessera::worker {

/// What the server promised at the last registration.
struct Session {
  int64_t generation = 0;  ///< rises with every registration
  Milliseconds lease{0};
  Milliseconds heartbeat{0};
};

/// Keeps the worker registered, across restarts of the server. Thread-safe.
class Registration {
 public:
  Registration(v1::WorkerService::StubInterface& stub, v1::RegisterWorkerRequest request)
      : stub_(stub), request_(std::move(request)) {}

  /// The current session; registers first when there is none, retrying with backoff until `cancellation`
  /// is thrown (CANCELLED). FAILED_PRECONDITION when the server refuses this worker's compiler.
  absl::StatusOr<Session> session(Cancellation& cancellation);

  /// The same with a single try, and UNAVAILABLE when another thread is at it: for those who cannot wait.
  absl::StatusOr<Session> sessionNow(Cancellation& cancellation);

  /// Says that the server of that generation is gone or no longer knows this worker.
  void invalidate(int64_t generation);

 private:
  absl::StatusOr<Session> current() const;
  absl::StatusOr<Session> registerOnce(Cancellation& cancellation);

  v1::WorkerService::StubInterface& stub_;
  const v1::RegisterWorkerRequest request_;
  std::mutex registering_;    // held while a call is under way; guards generation_
  mutable std::mutex mutex_;  // guards session_
  std::optional<Session> session_;
  int64_t generation_ = 0;
};

}  // namespace tessera::worker
