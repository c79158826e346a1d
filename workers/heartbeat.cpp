#include "workers/heartbeat.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "workers/rpc.h"

namespace tessera::worker {
namespace {

// Minimum interval between heartbeats with progress.
constexpr Milliseconds kProgressInterval{250};
// Retry interval while the server does not respond.
constexpr Milliseconds kRetryInterval{200};

v1::HeartbeatRequest identity(const std::string& worker_id, const v1::Lease& lease) {
  v1::HeartbeatRequest request;
  request.set_worker_id(worker_id);
  request.set_task_id(lease.task_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_secret(lease.secret());
  return request;
}

}  // namespace

Heartbeat::Heartbeat(v1::WorkerService::StubInterface& stub, Registration& registration, const Session& session,
                     const std::string& worker_id, const v1::Lease& lease, Cancellation& attempt)
    : stub_(stub),
      registration_(registration),
      session_(session),
      lease_(lease.lease_us() > 0 ? Milliseconds(std::max<int64_t>(1, lease.lease_us() / 1000)) : session.lease),
      identity_(identity(worker_id, lease)),
      attempt_(attempt),
      valid_until_(Clock::now() + lease_),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  stopping_.cancel(StopReason::kShutdown);
  thread_.join();
}

void Heartbeat::setProgress(const v1::Progress& progress) {
  const std::lock_guard lock(mutex_);
  progress_ = progress;
  has_progress_ = true;
  changed_.notify_all();
}

void Heartbeat::setTaskRunning(bool runs) {
  const std::lock_guard lock(mutex_);
  running_since_ = runs ? std::optional(Clock::now()) : std::nullopt;
}

void Heartbeat::setResultComplete() {
  const std::lock_guard lock(mutex_);
  complete_ = true;
}

void Heartbeat::run() {
  pthread_setname_np(pthread_self(), "heartbeat");  // for debuggers and tests
  Clock::time_point last_sent = Clock::now();
  while (waitForTurn(last_sent)) {
    last_sent = Clock::now();
    beat();
  }
}

// Waits until the next heartbeat is due or there is progress to send. False: stop.
bool Heartbeat::waitForTurn(Clock::time_point last_sent) {
  std::unique_lock lock(mutex_);
  // First wait for the minimum interval, even if there is progress; then for progress or the next heartbeat.
  const auto soonest = last_sent + std::min(kProgressInterval, session_.heartbeat);
  changed_.wait_until(lock, soonest, [this] { return stop_; });
  changed_.wait_until(lock, last_sent + session_.heartbeat, [this] { return stop_ || has_progress_; });
  return !stop_;
}

void Heartbeat::beat() {
  v1::HeartbeatRequest request = identity_;
  {
    const std::lock_guard lock(mutex_);
    if (has_progress_) *request.mutable_progress() = progress_;
    has_progress_ = false;
    if (running_since_) {
      const auto run = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - *running_since_);
      request.set_run_us(std::max<int64_t>(1, run.count()));
    }
  }
  while (!attempt_.cancelled() && !stopping_.cancelled()) {
    const Clock::time_point sent = Clock::now();
    v1::HeartbeatResponse response;
    absl::Status status;
    {
      // The call ends with the lease or after a heartbeat interval (at least 1 s), but gets at least 100 ms.
      const auto left = std::chrono::duration_cast<Milliseconds>(valid_until_ - sent);
      CallContext context(stopping_,
                          std::clamp(left, Milliseconds(100), std::max(session_.heartbeat, Milliseconds(1000))));
      status = toAbsl(stub_.Heartbeat(context.get(), request, &response));
    }
    if (status.ok()) {
      // Counted from sending, since the server may have extended the lease at any later moment.
      valid_until_ = sent + lease_;
      if (response.verdict() == v1::HeartbeatResponse::ABORT_CANCELLED) attempt_.cancel(StopReason::kCancelled);
      if (response.verdict() == v1::HeartbeatResponse::ABORT_LOST) attempt_.cancel(StopReason::kLeaseLost);
      return;
    }
    if (stopping_.cancelled()) return;
    if (absl::IsAborted(status)) {  // ReportTask's response to a stale token has the same meaning here
      attempt_.cancel(StopReason::kLeaseLost);
      return;
    }
    if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) {
      // The server has restarted and does not know this worker: register again; the lease may still be valid.
      registration_.invalidate(session_.generation);
      if (auto renewed = registration_.sessionNow(stopping_); renewed.ok()) session_ = *renewed;
    }
    bool complete;
    {
      const std::lock_guard lock(mutex_);
      complete = complete_;
    }
    if (!complete && Clock::now() >= valid_until_) {
      spdlog::warn("task {}: no heartbeat was answered for the length of the lease ({})", identity_.task_id(),
                   std::string(status.message()));
      attempt_.cancel(StopReason::kLeaseLost);
      return;
    }
    stopping_.sleepFor(std::min(kRetryInterval, session_.heartbeat));
  }
}

}  // namespace tessera::worker
