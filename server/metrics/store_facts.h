#pragma once

#include <prometheus/metric_family.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/quotas.h"
#include "server/clock.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// Figures of the store at a scrape: queue, leases, workers, blobs. Reads a snapshot concurrently with the writer,
/// through indices: the cost depends on leases and workers, not on the length of the queue. Blobs are counted by a scan
/// of their rows (about 10 ms per 100,000), at most once a minute.
class StoreFacts {
 public:
  StoreFacts(storage::Store& store, storage::BlobStore& blobs, const Quotas& quotas, Clock& clock)
      : store_(store), blobs_(blobs), quotas_(quotas), clock_(clock) {}

  absl::StatusOr<std::vector<prometheus::MetricFamily>> collect();

 private:
  storage::Store& store_;
  storage::BlobStore& blobs_;
  const Quotas& quotas_;
  Clock& clock_;
  std::mutex mutex_;
  storage::BlobTotals totals_;
  int64_t totals_until_us_ = 0;
};

/// Figures of this process, under the usual names of Prometheus' client libraries.
std::vector<prometheus::MetricFamily> processFacts();

}  // namespace tessera::server
