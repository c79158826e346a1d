#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/signing/artifact_signature.h"
#include "server/access/gate.h"
#include "server/clock.h"
#include "server/limits.h"
#include "server/queue/scheduler.h"
#include "server/tls.h"
#include "storage/blob_store.h"
#include "storage/server_registry.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

class Metrics;

struct ServerOptions {
  std::vector<std::string> listen = {"127.0.0.1:7400"};  ///< host:port (port 0: any free one) or unix:/path
  std::vector<std::string> worker_listen;                ///< likewise, for workers; each needs a credential
  std::vector<std::string> web_listen;                   ///< host:port of the web page and the JSON API; empty: none
  std::vector<std::string> web_hosts;                    ///< names of this machine that the page and the metrics accept
  std::vector<std::string> metrics_listen;               ///< host:port of /metrics, /healthz, /readyz; empty: none
  bool metrics_need_token = false;                       ///< otherwise /metrics is public
  /// Plain-text listener of local workers and of this machine's operator.
  std::string private_listen = "127.0.0.1:0";
  std::optional<Tls> tls;  ///< of all listeners except Unix sockets and the private one
  /// Of `listen`. The other listeners always need a credential.
  GatePolicy gate{.anonymous_role = v1::CLIENT};
  /// Part of the local workers' names (localWorkerPrefix()), and the server's name among those on the store.
  std::string name = {};
  storage::ServerRegistry* registry = nullptr;  ///< of the servers on the store; null: this one is alone
  std::string home = {};                        ///< ServerIdentity::home
  std::string quotas_file;                      ///< a v1::Quotas as text, read again when it changes; empty: no quotas
  std::string audit_file;                       ///< of JSON lines; empty: no audit log
  /// Signs artifacts; unset: a key that is not stored.
  std::optional<SigningKey> signing_key;
  Limits limits;
  v1::RetentionPolicy policy;             ///< retention; all 0: everything is kept forever
  std::chrono::seconds collect_every{0};  ///< 0: only on request
  int max_connections = 4096;             ///< to all gRPC listeners together
  int max_connections_of_one = 1024;      ///< from one host; Unix sockets are not counted
  int64_t scrub_bytes_per_second = 0;     ///< rate of the scrubber; 0: off
  Rules rules;                            ///< empty compiler_version: that of this build
  Metrics* metrics = nullptr;             ///< must outlive the server; `metrics_listen` needs it
  int control_threads = 16;               ///< for transactions; several share a commit
  int blob_threads = 4;                   ///< for reading and writing blobs
};

/// The service without its processes: scheduler, gRPC services, health, reflection and the sweep. Store and blob store
/// must outlive it.
class Server {
 public:
  /// Recovers the scheduler's state and starts to serve. FAILED_PRECONDITION if an address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> start(storage::Store& store, storage::BlobStore& blobs,
                                                       const ServerOptions& options);
  virtual ~Server() = default;

  /// Actual addresses, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;
  virtual const std::vector<std::string>& workerAddresses() const = 0;   ///< likewise for `worker_listen`
  virtual const std::vector<std::string>& webAddresses() const = 0;      ///< likewise for `web_listen`
  virtual const std::vector<std::string>& metricsAddresses() const = 0;  ///< likewise for `metrics_listen`
  virtual const std::string& privateAddress() const = 0;
  /// Tokens of this process only: for local workers, and for users who can read the data folder.
  virtual const std::string& workerToken() const = 0;
  virtual const std::string& operatorToken() const = 0;
  virtual Scheduler& scheduler() = 0;

  /// Leases no further task, answers "not serving" to health checks, and leaves periodic work to other servers. All
  /// other calls continue.
  virtual void drain() = 0;
  /// Opens the audit log again after it was renamed.
  virtual absl::Status reopenAuditLog() = 0;
  /// Whether a task is leased. If other servers live, only leases of local workers count: other workers report to them.
  virtual bool busy() = 0;
  /// Ends calls in progress after `grace_ms`, and stops. Idempotent.
  virtual void stop(int grace_ms) = 0;
};

}  // namespace tessera::server
