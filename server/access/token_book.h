#pragma once

#include <map>
#include <mutex>
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
/// Those by another server on the store take effect here when load() is called; a token that is not known here is
/// looked up in the store, but at most 20 times a second for all callers, since anybody can send unknown ones.
/// Thread-safe.
class TokenBook {
 public:
  /// `is_shared`: other servers use the store.
  TokenBook(storage::Store& store, Clock& clock, IdSource& ids, bool is_shared = false)
      : store_(store), clock_(clock), ids_(ids), is_shared_(is_shared) {}

  /// Loads the tokens of the store.
  absl::Status load() const;

  /// Creates a token. This response is the only place of its secret.
  absl::StatusOr<v1::CreateTokenResponse> create(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::AccessToken> revoke(const std::string& id);
  absl::StatusOr<std::vector<v1::AccessToken>> list() const;

  /// Creates a token that exists only in this process: for local workers, and for users who can read the data folder.
  std::string issueForThisProcess(const std::string& name, v1::Role role);

  /// The holder of the token. UNAUTHENTICATED if it is unknown, expired or revoked.
  absl::StatusOr<Caller> find(std::string_view secret) const;
  /// Whether a token has or had this name, which is then not available to others.
  bool isHolder(const std::string& name) const;

 private:
  bool mayLookUp() const;

  storage::Store& store_;
  Clock& clock_;
  IdSource& ids_;
  const bool is_shared_;
  mutable std::shared_mutex mutex_;
  mutable std::map<std::string, v1::AccessToken> by_hash_;  ///< by SHA-256 of the secret
  mutable std::mutex looking_;
  mutable int64_t next_look_us_ = 0;
};

}  // namespace tessera::server
