#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/limits.h"
#include "server/operator_catalog.h"
#include "server/queue/scheduler.h"
#include "storage/blob_store.h"
#include "tessera/v1/worker_service.grpc.pb.h"

namespace tessera::server {

/// The protocol of the workers: registration, leases of tasks, heartbeats, reports. Only workers call it. (FleetService
/// shows the workers to clients.) Thread-safe.
class WorkerService : public v1::WorkerService::CallbackService {
 public:
  WorkerService(Scheduler& scheduler, storage::BlobStore& blobs, OperatorCatalog& operators, Gate& gate,
                Executor& executor, const Limits& limits)
      : scheduler_(scheduler),
        blobs_(blobs),
        operators_(operators),
        gate_(gate),
        executor_(executor),
        limits_(limits) {}

  grpc::ServerUnaryReactor* RegisterWorker(grpc::CallbackServerContext* context,
                                           const v1::RegisterWorkerRequest* request,
                                           v1::RegisterWorkerResponse* response) override;
  grpc::ServerUnaryReactor* LeaseTask(grpc::CallbackServerContext* context, const v1::LeaseTaskRequest* request,
                                      v1::LeaseTaskResponse* response) override;
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context, const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override;
  grpc::ServerUnaryReactor* ReportTask(grpc::CallbackServerContext* context, const v1::ReportTaskRequest* request,
                                       v1::ReportTaskResponse* response) override;

 private:
  /// Checks the digests of the files that a report encloses. Stores large files and removes their bytes from the
  /// report; the transaction that records the result stores the small ones.
  absl::Status storeEnclosed(v1::TaskResult& result);

  Scheduler& scheduler_;
  storage::BlobStore& blobs_;
  OperatorCatalog& operators_;
  Gate& gate_;
  Executor& executor_;
  const Limits& limits_;
};

}  // namespace tessera::server
