#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/limits.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/scheduler.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

struct ServerOptions {
  std::vector<std::string> listen = {"127.0.0.1:7400"};  ///< host:port (port 0: any free one) or unix:/path
  Limits limits;
  Rules rules;               ///< compiler_version empty: this build's
  int control_threads = 16;  ///< transactions; several share a commit
  int blob_threads = 4;      ///< reading and writing blobs
  std::string local_worker_prefix = "local-";
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
  virtual Scheduler& scheduler() = 0;

  /// Gives no more tasks away, answers "not serving" to health checks, and goes on with all else.
  virtual void drain() = 0;
  /// Whether a worker still runs a task.
  virtual bool busy() = 0;
  /// Ends calls in progress after `grace_ms` and stops. Idempotent.
  virtual void stop(int grace_ms) = 0;
};

}  // namespace tessera::server
