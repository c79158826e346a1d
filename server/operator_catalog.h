#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "storage/operator_list.h"
#include "storage/server_registry.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// Operators that the compiler imports, as the workers announce them, since tesserad does not link the compiler. The
/// newest table is kept in memory, also after its worker has left, and by the registry, for servers at which no worker
/// has registered. Thread-safe.
class OperatorCatalog {
 public:
  explicit OperatorCatalog(storage::ServerRegistry& registry) : registry_(registry) {}

  /// Takes the table of an accepted registration; no effect if it has none.
  absl::Status announce(const v1::RegisterWorkerRequest& request);

  /// UNAVAILABLE, with the remedy, until a worker has announced a table.
  absl::StatusOr<v1::ListOperatorsResponse> list(const storage::ListQuery& query);

 private:
  absl::Status take(const v1::ListOperatorsResponse& table, std::string bytes);

  storage::ServerRegistry& registry_;
  std::mutex mutex_;  // guards the pointer and `announced_`; the list locks itself
  std::shared_ptr<storage::OperatorList> operators_;
  std::string
      announced_;  ///< the serialized table, to recognize equal ones: all workers of one release announce the same
  std::string compiler_version_;
};

}  // namespace tessera::server
