#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/store.h"

/// The number of workers that the live tasks need, for autoscalers and metrics.
namespace tessera::server {

/// The live tasks of one kind and target.
struct WantedWorkers {
  v1::TaskKind kind = v1::TASK_KIND_UNSPECIFIED;
  std::string target;  ///< Task.target
  int64_t waiting = 0;
  int64_t running = 0;
  int64_t slots_per_worker = 1;  ///< median of the workers that accept the kind
  /// Slots that these tasks take. A measurement takes all slots of a worker, because it has the worker's measuring
  /// cores to itself.
  int64_t slots = 0;

  /// Workers that run all of these tasks at once. Not rounded, so that sums over kinds and targets round once.
  double workers() const { return static_cast<double>(slots) / static_cast<double>(slots_per_worker); }
  int64_t workersRoundedUp() const { return (slots + slots_per_worker - 1) / slots_per_worker; }
};

/// The live tasks of all projects by kind, then target; kinds and targets without tasks are left out. The cost depends
/// on workers, leases, kinds and targets, not on the length of the queue.
absl::StatusOr<std::vector<WantedWorkers>> wantedWorkers(storage::Reader& reader);

}  // namespace tessera::server
