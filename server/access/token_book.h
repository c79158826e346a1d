#pragma once

#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access.h"
#include "server/clock.h"
#include "storage/store.h"

namespace tessera::server {

/// The tokens that say who calls. Kept in the store by their hashes; who reads the database cannot use them. Changes
/// count at once. Thread-safe.
class TokenBook {
 public:
  TokenBook(storage::Store& store, Clock& clock, IdSource& ids) : store_(store), clock_(clock), ids_(ids) {}

  /// Reads what the store has.
  absl::Status load();

  /// A new token; the answer's secret is told this once.
  absl::StatusOr<v1::CreateTokenResponse> create(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::AccessToken> revoke(const std::string& id);
  std::vector<v1::AccessToken> list() const;

  /// A token that lives as long as this process and is stored nowhere: for the server's own workers and whoever may
  /// read its data folder.
  std::string issueForThisProcess(const std::string& name, v1::Role role);

  /// Whose token that is. UNAUTHENTICATED when nobody's, or when it has expired or is revoked.
  absl::StatusOr<Caller> find(std::string_view secret) const;
  /// Whether some token is, or was, of this name: then nobody else can go by it.
  bool isHolder(const std::string& name) const;

 private:
  storage::Store& store_;
  Clock& clock_;
  IdSource& ids_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, v1::AccessToken> by_hash_;  ///< SHA-256 of the secret
};

}  // namespace tessera::server
