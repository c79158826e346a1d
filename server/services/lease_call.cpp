#include "server/services/lease_call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "proto/support/status_macros.h"
#include "server/request_checks.h"

namespace tessera::server {
namespace {

/// Inputs up to this size are sent with the lease, as long as their sum does not exceed it.
constexpr int64_t kSmallInput = 64 << 10, kSmallInputsOfLease = 1 << 20;

}  // namespace

grpc::ServerUnaryReactor* LeaseCall::start(std::shared_ptr<Ticket> ticket, Scheduler& scheduler,
                                           storage::BlobStore& blobs, Executor& executor, v1::LeaseTaskRequest request,
                                           std::string owner, v1::LeaseTaskResponse* response) {
  std::shared_ptr<LeaseCall> call(
      new LeaseCall(scheduler, blobs, executor, std::move(request), std::move(owner), response));
  call->keepAlive(std::move(ticket));
  call->wake();
  return call.get();
}

void LeaseCall::OnCancel() {
  gone_ = true;
  wake();
}

void LeaseCall::OnDone() {
  scheduler_.notifier().forget(waiting_);
  alarm_.Cancel();
  release();
}

absl::Status LeaseCall::begin() {
  begun_ = true;
  TESSERA_RETURN_IF_ERROR(checkText("worker_id", request_.worker_id(), Limits::kMaxWorkerIdLength, false));
  TESSERA_RETURN_IF_ERROR(checkText("trouble", request_.trouble(), Limits::kMaxTroubleLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("wait_us", request_.wait_us(), 0, Limits::kMaxTimeoutUs));
  // At most half a lease: polling is an idle worker's sign of life.
  const int64_t wait_us = std::min(request_.wait_us(), scheduler_.rules().lease_us / 2);
  expired_ = wait_us == 0;
  if (!expired_) {
    alarm_.Set(std::chrono::system_clock::now() + std::chrono::microseconds(wait_us), [weak = weak_from_this()](bool) {
      if (auto self = std::static_pointer_cast<LeaseCall>(weak.lock())) {
        self->expired_ = true;
        self->wake();
      }
    });
  }
  return absl::OkStatus();
}

void LeaseCall::advance() {
  if (finished_) {
    return;
  }
  if (gone_) {
    scheduler_.notifier().notifyNext();  // this call may have been woken for a task
    return finish(absl::CancelledError("the worker left"));
  }
  if (!begun_) {
    if (const absl::Status status = begin(); !status.ok()) {
      return finish(status);
    }
  }
  // Read the generation before looking: a task that becomes ready in between wakes this call at once.
  const uint64_t generation = scheduler_.notifier().taskGeneration();
  const bool last_look = expired_ || scheduler_.draining();
  auto answer = scheduler_.leaseTask(request_.worker_id(), request_.trouble(), owner_);
  if (!answer.ok()) {
    return finish(answer.status());
  }
  *response_ = *std::move(answer);
  if (response_->has_lease()) {
    if (gone_) {
      giveBack();
      return finish(absl::CancelledError("the worker left"));
    }
    enclose(*response_->mutable_lease());
    return finish(absl::OkStatus());
  }
  if (scheduler_.tasksWait()) {
    scheduler_.notifier().notifyNext();  // another worker may be able to run the task
  }
  if (last_look) {
    return finish(absl::OkStatus());
  }
  scheduler_.notifier().forget(waiting_);
  waiting_ = scheduler_.notifier().onTasks(generation, waker());
}

void LeaseCall::enclose(v1::Lease& lease) {
  int64_t room = kSmallInputsOfLease;
  for (const v1::Digest& digest : lease.task().inputs()) {
    if (digest.size_bytes() > std::min(room, kSmallInput)) {
      continue;
    }
    std::string bytes;
    const absl::Status whole = blobs_.get(digest.sha256(), 0, 0, [&](std::string_view chunk) {
      bytes.append(chunk);
      return absl::OkStatus();
    });
    // The worker requests a missing input itself, and gets the error.
    if (whole.ok()) {
      v1::BlobBytes& input = *lease.add_inputs();
      *input.mutable_digest() = digest;
      input.set_data(std::move(bytes));
      room -= digest.size_bytes();
    }
  }
}

/// The worker disconnected while the task was leased to it. Returns the task at once, instead of at the lease's expiry.
void LeaseCall::giveBack() {
  v1::ReportTaskRequest report;
  report.set_worker_id(request_.worker_id());
  report.set_task_id(response_->lease().task_id());
  report.set_fencing_token(response_->lease().fencing_token());
  report.set_secret(response_->lease().secret());
  report.mutable_result()->mutable_failure()->set_reason(v1::Failure::CANCELLED);
  report.mutable_result()->mutable_failure()->set_message("the worker left before it got the task");
  if (const absl::Status status = scheduler_.reportTask(report); !status.ok()) {
    spdlog::warn("task {} waits for its lease to expire: {}", report.task_id(), std::string(status.message()));
  }
}

void LeaseCall::finish(const absl::Status& status) {
  finished_ = true;
  Finish(finalStatus(status));
}

}  // namespace tessera::server
