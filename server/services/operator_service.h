#pragma once

#include "server/access/gate.h"
#include "server/executor.h"
#include "server/operator_catalog.h"
#include "tessera/v1/operator_service.grpc.pb.h"

namespace tessera::server {

/// Lists the operators that the compiler imports, as the workers report them. Thread-safe.
class OperatorService : public v1::OperatorService::CallbackService {
 public:
  OperatorService(OperatorCatalog& operators, Gate& gate, Executor& executor)
      : operators_(operators), gate_(gate), executor_(executor) {}

  grpc::ServerUnaryReactor* ListOperators(grpc::CallbackServerContext* context, const v1::ListOperatorsRequest* request,
                                          v1::ListOperatorsResponse* response) override;

 private:
  OperatorCatalog& operators_;
  Gate& gate_;
  Executor& executor_;
};

}  // namespace tessera::server
