#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/channel/identity.h"
#include "workers/cancellation.h"

namespace tessera::worker {

/// A client context with a deadline; the call is cancelled together with the attempt or worker.
class CallContext {
 public:
  CallContext(Cancellation& cancellation, Milliseconds timeout)
      : cancel_(cancellation, [this](StopReason) { context_.TryCancel(); }) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
  }
  grpc::ClientContext* get() { return &context_; }

 private:
  grpc::ClientContext context_;
  OnCancel cancel_;
};

inline absl::Status toAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

/// Whether a retry may succeed: the server is unreachable, restarting or overloaded.
inline bool isTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         absl::IsCancelled(status) || absl::IsUnknown(status);
}

/// Opens a channel that reconnects quickly to a restarted server and accepts large messages.
absl::StatusOr<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const Identity& identity);

}  // namespace tessera::worker
