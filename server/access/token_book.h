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

/// Access tokens. The store has their hashes only, so that the database reveals none. Changes take effect immediately.
/// Thread-safe.
class TokenBook {
 public:
  TokenBook(storage::Store& store, Clock& clock, IdSource& ids) : store_(store), clock_(clock), ids_(ids) {}

  /// Loads the tokens of the store.
  absl::Status load();

  /// Creates a token. This response is the only place of its secret.
  absl::StatusOr<v1::CreateTokenResponse> create(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::AccessToken> revoke(const std::string& id);
  std::vector<v1::AccessToken> list() const;

  /// Creates a token that exists only in this process: for local workers, and for users who can read the data folder.
  std::string issueForThisProcess(const std::string& name, v1::Role role);

  /// The holder of the token. UNAUTHENTICATED if it is unknown, expired or revoked.
  absl::StatusOr<Caller> find(std::string_view secret) const;
  /// Whether a token has or had this name, which is then not available to others.
  bool isHolder(const std::string& name) const;

 private:
  storage::Store& store_;
  Clock& clock_;
  IdSource& ids_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, v1::AccessToken> by_hash_;  ///< by SHA-256 of the secret
};

}  // namespace tessera::server
