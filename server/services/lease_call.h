#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/queue/scheduler.h"
#include "server/services/calls.h"
#include "storage/blob_store.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// One LeaseTask call: returns a task, or an empty response after the wait time. While it waits it holds no thread; a
/// task that becomes ready wakes it.
class LeaseCall : public grpc::ServerUnaryReactor, public WakeableCall {
 public:
  static grpc::ServerUnaryReactor* start(std::shared_ptr<Ticket> ticket, Scheduler& scheduler,
                                         storage::BlobStore& blobs, Executor& executor, v1::LeaseTaskRequest request,
                                         std::string owner, v1::LeaseTaskResponse* response);

  void OnCancel() override;
  void OnDone() override;

 private:
  LeaseCall(Scheduler& scheduler, storage::BlobStore& blobs, Executor& executor, v1::LeaseTaskRequest request,
            std::string owner, v1::LeaseTaskResponse* response)
      : WakeableCall(executor),
        scheduler_(scheduler),
        blobs_(blobs),
        request_(std::move(request)),
        owner_(std::move(owner)),
        response_(response) {}
  void advance() override;
  absl::Status begin();
  /// Adds small inputs of the task to the lease.
  void enclose(v1::Lease& lease);
  void giveBack();
  void finish(const absl::Status& status);

  Scheduler& scheduler_;
  storage::BlobStore& blobs_;
  const v1::LeaseTaskRequest request_;
  const std::string owner_;  ///< the worker's credential
  v1::LeaseTaskResponse* response_;
  grpc::Alarm alarm_;
  Notifier::Token waiting_ = 0;
  bool begun_ = false;
  bool finished_ = false;
  std::atomic<bool> expired_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
