#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "storage/operator_list.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// What the compiler imports, as the workers say it: tesserad itself does not link the compiler. The newest table
/// is kept, in memory, and stays when its worker leaves. Thread-safe.
class OperatorCatalog {
 public:
  /// Takes the table out of an accepted registration; one without a table changes nothing.
  absl::Status announce(const v1::RegisterWorkerRequest& request);

  /// UNAVAILABLE, saying what to do, while no worker has announced a table.
  absl::StatusOr<v1::ListOperatorsResponse> list(const storage::ListQuery& query);

 private:
  std::mutex mutex_;  // guards the pointer and what was announced; the list locks itself
  std::shared_ptr<storage::OperatorList> operators_;
  std::string announced_;  ///< the table's bytes: workers of one release all say the same
  std::string compiler_version_;
};

}  // namespace tessera::server
