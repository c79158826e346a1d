#include "server/gateway/event_stream.h"

#include <atomic>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/gateway/transcoding.h"
#include "server/gateway/web_limits.h"

namespace tessera::server::gateway {
namespace {

/// Duration of a stream; the browser then reconnects and continues.
constexpr std::chrono::hours kWatchPatience{6};

const char* nameOf(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kState:
      return "state";
    case v1::JobEvent::kProgress:
      return "progress";
    case v1::JobEvent::kAttempt:
      return "attempt";
    case v1::JobEvent::kQueue:
      return "queue";
    case v1::JobEvent::kTune:
      return "tune";
    default:
      return "message";
  }
}

}  // namespace

std::string asServerSentEvent(const v1::JobEvent& event) {
  // JSON contains no raw line break, so one data line is enough.
  return absl::StrCat("id: ", event.sequence(), "\nevent: ", nameOf(event), "\ndata: ", toJson(event), "\n\n");
}

/// Shared by the stream and gRPC, which holds it from the start of the call until OnDone.
struct EventStream::Call : public grpc::ClientReadReactor<v1::WatchJobResponse> {
  void OnReadDone(bool ok) override {
    {
      const std::lock_guard lock(mutex);
      reading = false;
      if (ok) {
        events.push_back(std::move(*message.mutable_event()));
        readOn();
      } else {
        ended = true;
      }
      changed.notify_all();
    }
    if (!ok) {
      letGo();
    }
  }

  void OnDone(const grpc::Status& outcome) override {
    const std::shared_ptr<Call> last = std::move(self);
    const std::lock_guard lock(mutex);
    done = true;
    status = fromGrpc(outcome);
    changed.notify_all();
  }

  /// Requires the mutex.
  void readOn() {
    if (!reading && !ended && events.size() < WebLimits::kMaxEventsAhead) {
      reading = true;
      message.Clear();
      StartRead(&message);
    }
  }

  /// Reads are started when the browser has taken events, outside of gRPC's callbacks. The hold makes gRPC wait for
  /// such reads before it calls OnDone.
  void letGo() {
    if (held.exchange(false)) {
      RemoveHold();
    }
  }

  grpc::ClientContext context;
  v1::WatchJobRequest request;
  std::unique_ptr<v1::JobService::Stub> stub;
  v1::WatchJobResponse message;
  std::shared_ptr<Call> self;
  std::atomic<bool> held = true;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<v1::JobEvent> events;
  bool reading = false;
  bool ended = false;  ///< a read reported the end of the stream
  bool done = false;
  absl::Status status;
};

EventStream::EventStream(Upstream& upstream, const WebCaller& caller, const std::string& job_id, int64_t cursor)
    : call_(std::make_shared<Call>()) {
  call_->self = call_;
  call_->request.set_id(job_id);
  call_->request.set_cursor(cursor);
  call_->stub = v1::JobService::NewStub(upstream.channel());
  Upstream::prepare(call_->context, caller, kWatchPatience);
  call_->stub->async()->WatchJob(&call_->context, &call_->request, call_.get());
  call_->AddHold();
  {
    const std::lock_guard lock(call_->mutex);
    call_->readOn();
  }
  call_->StartCall();
}

EventStream::~EventStream() {
  call_->context.TryCancel();
  call_->letGo();
}

bool EventStream::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(call_->mutex);
  return call_->changed.wait_for(lock, patience, [this] { return !call_->events.empty() || call_->done; });
}

std::optional<std::vector<v1::JobEvent>> EventStream::take() {
  const std::lock_guard lock(call_->mutex);
  if (call_->events.empty() && call_->done) {
    return std::nullopt;
  }
  std::vector<v1::JobEvent> taken(std::make_move_iterator(call_->events.begin()),
                                  std::make_move_iterator(call_->events.end()));
  call_->events.clear();
  if (!call_->done && call_->held) {
    call_->readOn();
  }
  return taken;
}

absl::Status EventStream::status() const {
  const std::lock_guard lock(call_->mutex);
  return call_->status;
}

}  // namespace tessera::server::gateway
