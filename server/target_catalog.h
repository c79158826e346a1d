#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/target_service.pb.h"

namespace tessera::server {

/// Targets by name: the ones that come with Tessera (compiler/target), for everybody, and those that projects have
/// registered in the store, each for itself.
/// The store keeps a copy of the former too, so that one filter and one order serve both in lists.
/// Thread-safe.
class TargetCatalog {
 public:
  explicit TargetCatalog(storage::Store& store) : store_(store) {}

  /// Copies the built-in targets of this release into the store. Call once at start.
  absl::Status storeBuiltins();

  /// The target a request means: by name, or written out and then validated. INVALID_TARGET names the unknown name,
  /// "host" among them, which a client writes out, or lists every problem.
  absl::StatusOr<std::shared_ptr<const v1::Target>> resolve(const std::string& project, const v1::TargetRef& ref);

  absl::StatusOr<v1::GetTargetResponse> get(const std::string& project, const std::string& name);
  absl::StatusOr<v1::ListTargetsResponse> list(const storage::ListQuery& query);

  /// Registers under its name. ALREADY_EXISTS for a built-in name or different content.
  absl::StatusOr<v1::RegisterTargetResponse> add(const std::string& project, const v1::Target& target);

 private:
  absl::StatusOr<std::shared_ptr<const v1::Target>> find(const std::string& project, const std::string& name);

  storage::Store& store_;
};

}  // namespace tessera::server
