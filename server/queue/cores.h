#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// Which cores of its host a task gets. What is timed has the cores that the host lends for that, and nothing else of
/// the service runs there meanwhile: from when something is searched, other tasks are leased for the rest of the cores
/// only, and a measurement waits for those that were leased for all of them. A host that has no core to spare, or lends
/// fewer than a measurement has threads, is given to it as a whole.
namespace tessera::server {

struct CoreGrant {
  v1::CoreUse use = v1::CORE_USE_UNSPECIFIED;
  int first = 0;  ///< MEASURING: of the lent ones
};

/// The host of one worker that asks for a task, as it is during one transaction.
class HostCores {
 public:
  HostCores(storage::Reader& reader, const v1::Worker& worker, int64_t now_us)
      : reader_(reader), worker_(worker), now_us_(now_us) {}

  /// What `task` would get now; nothing when it has to wait.
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
  bool searching_ = false;             ///< something is or will be timed
  bool whole_host_is_wanted_ = false;  ///< by a measurement that has waited for it
  std::vector<v1::Task> here_;         ///< leased on this host
};

/// What tasks of a worker are known to run on.
std::string hostOf(const v1::Worker& worker);

}  // namespace tessera::server
