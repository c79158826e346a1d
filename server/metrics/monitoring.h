#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/quotas.h"
#include "server/clock.h"
#include "server/executor.h"
#include "server/metrics/metrics.h"
#include "server/tls.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

struct MonitoringOptions {
  std::vector<std::string> listen;  ///< host:port (port 0: any free one)
  std::vector<std::string> hosts;   ///< host names, as those of the web page
  std::optional<Tls> tls;
  /// Whether a token permits reading the metrics; unset: no token is needed.
  std::function<absl::Status(const std::string& secret)> authorize;
};

/// HTTP listener for monitoring systems:
///
///     /metrics   all figures, in Prometheus' text format
///     /healthz   200 while this process answers
///     /readyz    200 while the service accepts work: the store answers within two seconds, blobs can be written,
///                and it is not draining; otherwise 503 with the cause
///
/// Health checks need no credential.
class Monitoring {
 public:
  /// Everything but `options` must outlive it; work on `executor` may outlive stop(). FAILED_PRECONDITION if an address
  /// cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Monitoring>> start(const MonitoringOptions& options, const Metrics& metrics,
                                                           storage::Store& store, storage::BlobStore& blobs,
                                                           const Quotas& quotas, Clock& clock, Executor& executor);
  virtual ~Monitoring() = default;

  /// Actual addresses, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;
  /// /readyz is 503 from now on.
  virtual void drain() = 0;
  /// Idempotent.
  virtual void stop() = 0;
};

}  // namespace tessera::server
