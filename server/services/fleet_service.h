#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/queue/scheduler.h"
#include "storage/store.h"
#include "tessera/v1/worker_service.grpc.pb.h"

namespace tessera::server {

/// The clients' view of the workers: lists workers and their tasks, and drains a worker. (WorkerService is the protocol
/// that the workers themselves use.) Thread-safe.
class FleetService : public v1::FleetService::CallbackService {
 public:
  FleetService(Scheduler& scheduler, storage::Store& store, Gate& gate, Executor& executor)
      : scheduler_(scheduler), store_(store), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* GetWorker(grpc::CallbackServerContext* context, const v1::GetWorkerRequest* request,
                                      v1::GetWorkerResponse* response) override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext* context, const v1::ListTasksRequest* request,
                                      v1::ListTasksResponse* response) override;
  grpc::ServerUnaryReactor* ListWantedWorkers(grpc::CallbackServerContext* context,
                                              const v1::ListWantedWorkersRequest* request,
                                              v1::ListWantedWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context, const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;

 private:
  Scheduler& scheduler_;
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
