#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/target_service.pb.h"

namespace tessera::server {

/// Targets by name: the ones that come with Tessera (compiler/target) and those registered in the store.
/// Thread-safe.
class TargetCatalog {
 public:
  explicit TargetCatalog(storage::Store& store) : store_(store) {}

  /// The target a request means: by name, or written out and then validated. "host" is the machine the
  /// server runs on. NOT_FOUND names the close ones; INVALID_TARGET lists every problem.
  absl::StatusOr<v1::Target> resolve(const v1::TargetRef& ref);

  absl::StatusOr<v1::GetTargetResponse> get(const std::string& name);

  /// Built-in targets (first page only, and only those the filter of a name or family lets through), then
  /// registered ones.
  absl::StatusOr<v1::ListTargetsResponse> list(const storage::ListQuery& query);

  /// Registers under its name. ALREADY_EXISTS for a built-in or different content.
  absl::StatusOr<v1::RegisterTargetResponse> add(const v1::Target& target);

 private:
  storage::Store& store_;
};

}  // namespace tessera::server
