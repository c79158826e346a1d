#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/gateway/upstream.h"
#include "tessera/v1/job.grpc.pb.h"

namespace tessera::server::gateway {

/// WatchJob as server-sent events: each has the sequence number as its id, so that a browser that comes back with
/// Last-Event-ID goes on behind it. Reads at most WebLimits::kMaxEventsAhead events that nobody has taken.
class EventStream {
 public:
  EventStream(Upstream& upstream, const WebCaller& caller, const std::string& job_id, int64_t cursor);
  /// Ends the call.
  ~EventStream();

  /// Waits for something to send. True: there is an event, or the end. False: nothing came.
  bool wait(std::chrono::milliseconds patience);
  /// The events that are there; empty: none. After the last one nullopt.
  std::optional<std::vector<v1::JobEvent>> take();
  /// How the call ended; OK while it goes on.
  absl::Status status() const;

 private:
  struct Call;
  const std::shared_ptr<Call> call_;
};

/// One event as text/event-stream has it.
std::string asServerSentEvent(const v1::JobEvent& event);

}  // namespace tessera::server::gateway
