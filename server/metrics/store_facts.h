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

/// What the store knows at a scrape: queue, leases, workers, blobs. Reads on a snapshot beside the writer, by indices:
/// with 100,000 queued jobs a scrape costs as much as with none, plus what is leased and which workers there are. Blobs
/// are counted by walking their rows (some 10 ms per 100,000), at most once a minute.
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

/// This process's own, under the names that Prometheus' client libraries have agreed on.
std::vector<prometheus::MetricFamily> processFacts();

}  // namespace tessera::server
