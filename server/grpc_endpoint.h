#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/signing/artifact_signature.h"
#include "server/access/acceptor.h"
#include "server/access/gate.h"
#include "server/access/token_book.h"
#include "server/executor.h"
#include "server/limits.h"
#include "server/metrics/metrics.h"
#include "server/operator_catalog.h"
#include "server/queue/scheduler.h"
#include "server/retention/collector.h"
#include "server/target_catalog.h"
#include "storage/blob_store.h"
#include "storage/server_registry.h"
#include "storage/store.h"

namespace tessera::server {

/// The objects that the services use.
struct Backend {
  Clock& clock;
  storage::Store& store;
  storage::BlobStore& blobs;
  Scheduler& scheduler;
  TargetCatalog& targets;
  OperatorCatalog& operators;
  TokenBook& tokens;
  Quotas& quotas;
  AuditLog* audit;  ///< null: no audit log
  Collector& collector;
  Executor& control;  ///< for transactions
  Executor& blob_io;
  const Limits& limits;
  const v1::RetentionPolicy& policy;
  Metrics* metrics;  ///< null: calls are not counted
  const SigningKey& signing_key;
  storage::ServerRegistry& registry;
  std::shared_ptr<ConcurrencyLimiter> connections;  ///< shared by all endpoints; Unix sockets are not counted
};

/// A gRPC server with the services and one gate, on some addresses.
class GrpcEndpoint {
 public:
  enum class For {
    kClients,
    kWorkersAndOperator,  ///< also WorkerService
  };
  GrpcEndpoint(const Backend& backend, For whom, GatePolicy policy);
  ~GrpcEndpoint();

  struct Address {
    std::string listen;  ///< host:port (port 0: any free one) or unix:/path
    std::shared_ptr<grpc::ServerCredentials> credentials;
  };
  /// Starts to listen, and fills in the actual ports. FAILED_PRECONDITION if an address cannot be listened on.
  absl::Status open(std::vector<Address>& addresses);

  /// A channel within this process, after open(). Other processes cannot make calls over it.
  std::shared_ptr<grpc::Channel> channel();

  /// From now on health checks are answered "not serving".
  void leave();
  void stop(int grace_ms);

 private:
  struct Services;
  const Backend backend_;
  const For whom_;
  Gate gate_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  Acceptor acceptor_;
};

}  // namespace tessera::server
