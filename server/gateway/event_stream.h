#pragma once

#include <chrono>
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

/// Timeout for the first event of a stream.
inline constexpr std::chrono::milliseconds kFirstEvent{2000};

/// WatchJob as server-sent events. The id of an event is its sequence number, so that a browser that reconnects with
/// Last-Event-ID continues after it. Reads at most WebLimits::kMaxEventsAhead events ahead of the browser.
class EventStream {
 public:
  EventStream(Upstream& upstream, const WebCaller& caller, const std::string& job_id, int64_t cursor);
  /// Ends the call.
  ~EventStream();

  /// Waits up to `patience` for an event or the end of the stream. Returns whether one of them came.
  bool wait(std::chrono::milliseconds patience);
  /// The events so far; empty: none. nullopt after the last one.
  std::optional<std::vector<v1::JobEvent>> take();
  /// The call's final status; OK while it is in progress.
  absl::Status status() const;

 private:
  struct Call;
  const std::shared_ptr<Call> call_;
};

/// An event in the format text/event-stream.
std::string asServerSentEvent(const v1::JobEvent& event);

}  // namespace tessera::server::gateway
