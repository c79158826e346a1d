#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/executor.h"
#include "server/metrics/metrics.h"
#include "server/server.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

struct MonitoringOptions {
  std::vector<std::string> listen;  ///< host:port (port 0: any free one)
  std::vector<std::string> hosts;   ///< names it goes by, as those of the web page
  std::optional<Tls> tls;
  /// Whether the bearer of a secret may read the metrics; unset: everybody may.
  std::function<absl::Status(const std::string& secret)> authorize;
};

/// What a monitoring system asks, on addresses of its own:
///
///     /metrics   all counts, in Prometheus' text format
///     /healthz   200 while this process answers
///     /readyz    200 while work can be taken: the store answers within two seconds, blobs can be written, and the
///                service is not draining; else 503. Says which of them holds
///
/// Health is told to everybody who reaches the address.
class Monitoring {
 public:
  /// All but `options` must outlive it; work on `executor` may outlive a stop. FAILED_PRECONDITION when an address
  /// cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Monitoring>> start(const MonitoringOptions& options, const Metrics& metrics,
                                                           storage::Store& store, storage::BlobStore& blobs,
                                                           const Quotas& quotas, Clock& clock, Executor& executor);
  virtual ~Monitoring() = default;

  /// Where it listens, ports filled in, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;
  /// Not ready from now on.
  virtual void drain() = 0;
  /// Idempotent.
  virtual void stop() = 0;
};

}  // namespace tessera::server
