#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/target_service.pb.h"

namespace tessera::server {

/// Targets by name: built-in ones (compiler/target), available to all projects, and those that projects have registered
/// in the store, each for itself. The store has a copy of the built-in ones, so that one filter and one order apply to
/// both in lists. Thread-safe.
class TargetCatalog {
 public:
  explicit TargetCatalog(storage::Store& store) : store_(store) {}

  /// Copies this release's built-in targets into the store. Call once, at the start.
  absl::Status storeBuiltins();

  /// Resolves the target of a request: by name, or written out and validated. INVALID_TARGET for an unknown name, which
  /// includes "host" (clients write it out), or with a list of all problems.
  absl::StatusOr<std::shared_ptr<const v1::Target>> resolve(const std::string& project, const v1::TargetRef& ref);

  absl::StatusOr<v1::GetTargetResponse> get(const std::string& project, const std::string& name);
  absl::StatusOr<v1::ListTargetsResponse> list(const storage::ListQuery& query);

  /// Registers a target under its name. ALREADY_EXISTS for a built-in name, and for different content under the same
  /// name.
  absl::StatusOr<v1::RegisterTargetResponse> add(const std::string& project, const v1::Target& target);

 private:
  absl::StatusOr<std::shared_ptr<const v1::Target>> find(const std::string& project, const std::string& name);

  storage::Store& store_;
};

}  // namespace tessera::server
