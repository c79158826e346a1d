#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

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

  /// Copies this release's built-in targets into the store. Call once, at the start. A target that a project registered
  /// before this release gave its name to a built-in one keeps the name in that project.
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

  /// Whether the project's own target has this name of a built-in one.
  bool isKept(const std::string& project, const std::string& name) const {
    return !kept_.empty() && kept_.contains({project, name});
  }
  absl::Status findKept();

  storage::Store& store_;
  std::set<std::pair<std::string, std::string>> kept_;  // project and name; constant after storeBuiltins()
};

}  // namespace tessera::server
