#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// Decides which cores of a host a task gets. A measurement gets measuring cores of the host, and no
/// other task of the service runs there at the same time: while a search is in progress, other tasks are leased for the
/// remaining cores only, and a measurement waits for tasks that were leased for all cores. A measurement gets the whole
/// host if the host has no core to spare, or fewer measuring cores than the measurement has threads.
namespace tessera::server {

struct CoreGrant {
  v1::CoreUse use = v1::CORE_USE_UNSPECIFIED;
  int first = 0;  ///< MEASURING: index of the first measuring core
};

/// Placement on the host of one worker, during one transaction. Not thread-safe.
class HostCores {
 public:
  HostCores(storage::Reader& reader, const v1::Worker& worker, int64_t now_us)
      : reader_(reader), worker_(worker), now_us_(now_us) {}

  /// The cores that `task` would get now; nullopt if it has to wait.
  absl::StatusOr<std::optional<CoreGrant>> place(const v1::Task& task);

 private:
  absl::Status look();
  std::optional<CoreGrant> placeMeasurement(int threads) const;
  bool takesWholeHost(const v1::Task& measurement) const;
  bool canSpare() const { return worker_.measuring_cores() > 0 && worker_.host().cores() > worker_.measuring_cores(); }

  storage::Reader& reader_;
  const v1::Worker& worker_;
  int64_t now_us_;
  bool looked_ = false;
  bool searching_ = false;             ///< whether a task of a search is leased or ready
  bool whole_host_is_wanted_ = false;  ///< by a measurement that has waited for kPatienceUs
  std::vector<v1::Task> here_;         ///< tasks leased to workers of this host
};

/// Name of the worker's host, or the worker's id if it has none.
std::string hostOf(const v1::Worker& worker);

}  // namespace tessera::server
