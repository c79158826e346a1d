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
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

class Metrics;

/// What a listener shows and asks for, as PEM text.
struct Tls {
  std::string certificate, private_key;
  std::string client_authority;   ///< who vouches for clients' certificates; empty: they are asked for none
  bool need_certificate = false;  ///< a client without one is turned away, whatever token it has
};

struct ServerOptions {
  std::vector<std::string> listen = {"127.0.0.1:7400"};  ///< host:port (port 0: any free one) or unix:/path
  std::vector<std::string> worker_listen;                ///< the same, for workers: each shows a credential
  std::vector<std::string> web_listen;                   ///< host:port of the web page and the JSON API; empty: none
  std::vector<std::string> web_hosts;                    ///< names that it goes by there, and where metrics are
  std::vector<std::string> metrics_listen;               ///< host:port of /metrics, /healthz, /readyz; empty: none
  bool metrics_need_token = false;                       ///< or are told to everybody who reaches them
  /// Where the server's own workers and this machine's operator come in, in plain text.
  std::string private_listen = "127.0.0.1:0";
  std::optional<Tls> tls;  ///< of all but Unix sockets and the private address
  /// Of `listen`; elsewhere a credential is always asked for.
  GatePolicy gate{.anonymous_role = v1::CLIENT};
  std::string name = {};    ///< part of its local workers' names (localWorkerPrefix())
  std::string quotas_file;  ///< a v1::Quotas as text, read again when it changes; empty: nobody has a quota
  std::string audit_file;   ///< JSON lines; empty: none are written
  /// What artifacts are signed with, one that nobody keeps unless it is given.
  std::optional<SigningKey> signing_key;
  Limits limits;
  v1::RetentionPolicy policy;             ///< what is kept for how long; all 0: everything for ever
  std::chrono::seconds collect_every{0};  ///< 0: only when asked
  int max_connections = 4096;             ///< to all addresses of gRPC together, ...
  int max_connections_of_one = 1024;      ///< ... and from one machine; Unix sockets are not counted
  int64_t scrub_bytes_per_second = 0;     ///< blobs that nobody reads are read so slowly; 0: they are not
  Rules rules;                            ///< compiler_version empty: this build's
  Metrics* metrics = nullptr;  ///< where things are counted; must outlive the server; `metrics_listen` needs it
  int control_threads = 16;    ///< transactions; several share a commit
  int blob_threads = 4;        ///< reading and writing blobs
};

/// The service without its processes: scheduler, gRPC services, health, reflection and the sweep, over a
/// store and a blob store that outlive it.
class Server {
 public:
  /// Recovers the scheduler's state and serves. FAILED_PRECONDITION when an address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> start(storage::Store& store, storage::BlobStore& blobs,
                                                       const ServerOptions& options);
  virtual ~Server() = default;

  /// Where it listens, ports filled in, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;
  virtual const std::vector<std::string>& workerAddresses() const = 0;   ///< likewise of `worker_listen`
  virtual const std::vector<std::string>& webAddresses() const = 0;      ///< likewise of `web_listen`
  virtual const std::vector<std::string>& metricsAddresses() const = 0;  ///< likewise of `metrics_listen`
  virtual const std::string& privateAddress() const = 0;
  /// Tokens of this process alone, for its own workers and for whoever may read its data folder.
  virtual const std::string& workerToken() const = 0;
  virtual const std::string& operatorToken() const = 0;
  virtual Scheduler& scheduler() = 0;

  /// Gives no more tasks away, answers "not serving" to health checks, and goes on with all else.
  virtual void drain() = 0;
  /// Opens the audit log anew, which somebody has renamed.
  virtual absl::Status reopenAuditLog() = 0;
  /// Whether a worker still runs a task.
  virtual bool busy() = 0;
  /// Ends calls in progress after `grace_ms` and stops. Idempotent.
  virtual void stop(int grace_ms) = 0;
};

}  // namespace tessera::server
