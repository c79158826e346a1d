#include "workers/registration.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "proto/support/status_macros.h"
#include "workers/backoff.h"
#include "workers/rpc.h"

namespace tessera::worker {
namespace {

constexpr Milliseconds kCallTimeout{10'000};

Milliseconds fromMicroseconds(int64_t us, Milliseconds otherwise) {
  return us > 0 ? std::max(Milliseconds(1), Milliseconds(us / 1000)) : otherwise;
}

}  // namespace

absl::StatusOr<Session> Registration::session(Cancellation& cancellation) {
  const std::lock_guard only_one(registering_);
  Backoff backoff;
  std::string told;  // last message logged; repeated messages are suppressed
  absl::StatusOr<Session> session = current();
  while (!session.ok() && !cancellation.cancelled()) {
    session = registerOnce(cancellation);
    const absl::Status& status = session.status();
    if (status.ok() || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) return session;
    const std::string why = absl::IsUnimplemented(status)
                                ? "this address of the server is not for workers; name one of its --worker-listen"
                                : std::string(status.message());
    if (why != told) spdlog::warn("the server has not registered this worker: {}", why);
    told = why;
    cancellation.sleepFor(backoff.next());
  }
  return session;
}

absl::StatusOr<Session> Registration::sessionNow(Cancellation& cancellation) {
  const std::unique_lock only_one(registering_, std::try_to_lock);
  if (!only_one.owns_lock()) return absl::UnavailableError("a registration is in progress");
  auto session = current();
  return session.ok() ? session : registerOnce(cancellation);
}

absl::StatusOr<Session> Registration::current() const {
  const std::lock_guard lock(mutex_);
  if (!session_) return absl::UnavailableError("not registered");
  return *session_;
}

absl::StatusOr<Session> Registration::registerOnce(Cancellation& cancellation) {
  v1::RegisterWorkerResponse response;
  CallContext context(cancellation, kCallTimeout);
  TESSERA_RETURN_IF_ERROR(toAbsl(stub_.RegisterWorker(context.get(), request_, &response)));
  Session session;
  session.generation = ++generation_;
  session.lease = fromMicroseconds(response.lease_us(), Milliseconds(30'000));
  session.heartbeat = fromMicroseconds(response.heartbeat_us(), session.lease / 4);
  spdlog::info("registered as {}: lease {} ms, heartbeat {} ms", request_.worker_id(), session.lease.count(),
               session.heartbeat.count());
  const std::lock_guard lock(mutex_);
  session_ = session;
  return session;
}

void Registration::invalidate(int64_t generation) {
  const std::lock_guard lock(mutex_);
  if (session_ && session_->generation == generation) session_.reset();
}

}  // namespace tessera::worker
