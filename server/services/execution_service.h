#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/limits.h"
#include "server/queue/scheduler.h"
#include "storage/store.h"
#include "tessera/v1/execution_service.grpc.pb.h"

namespace tessera::server {

/// Runs and profiles artifacts on workers. Each call creates a job and waits for its end (run_call.h). Thread-safe.
class ExecutionService : public v1::ExecutionService::CallbackService {
 public:
  ExecutionService(Scheduler& scheduler, storage::Store& store, Gate& gate, Executor& executor, const Limits& limits)
      : scheduler_(scheduler), store_(store), gate_(gate), executor_(executor), limits_(limits) {}

  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context, const v1::ExecuteRequest* request,
                                    v1::ExecuteResponse* response) override;
  grpc::ServerUnaryReactor* Profile(grpc::CallbackServerContext* context, const v1::ProfileRequest* request,
                                    v1::ProfileResponse* response) override;

 private:
  Scheduler& scheduler_;
  storage::Store& store_;
  Gate& gate_;
  Executor& executor_;
  const Limits& limits_;
};

}  // namespace tessera::server
