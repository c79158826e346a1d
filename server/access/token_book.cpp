#include "server/access/token_book.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

/// Prefix by which a token found in a file or log is recognized.
constexpr char kPrefix[] = "tessera-";

/// Length of a secret: 256 random bits cannot be guessed, so a fast hash is as safe as a slow one.
std::string newSecret(IdSource& ids) {
  return absl::StrCat(kPrefix, absl::BytesToHexString(ids.secret()), absl::BytesToHexString(ids.secret()));
}

}  // namespace

absl::Status TokenBook::load() const {
  std::vector<storage::StoredToken> tokens;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(tokens, reader.tokens());
    return absl::OkStatus();
  }));
  const std::unique_lock lock(mutex_);
  for (storage::StoredToken& stored : tokens) {
    by_hash_[stored.sha256] = std::move(stored.token);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CreateTokenResponse> TokenBook::create(const v1::CreateTokenRequest& request) {
  v1::CreateTokenResponse response;
  response.set_secret(newSecret(ids_));
  v1::AccessToken& token = *response.mutable_token();
  token.set_id(ids_.next("token"));
  token.set_name(request.name());
  token.set_role(request.role());
  token.set_project(projectOf(request));
  token.set_create_time_us(clock_.nowMicros());
  if (request.lifetime_us() > 0) {
    token.set_expire_time_us(token.create_time_us() + request.lifetime_us());
  }
  const std::string hash = sha256Hex(response.secret());
  TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) { return tx.putToken({token, hash}); }));
  const std::unique_lock lock(mutex_);
  by_hash_[hash] = token;
  return response;
}

absl::StatusOr<v1::AccessToken> TokenBook::revoke(const std::string& id) {
  if (is_shared_) {
    TESSERA_RETURN_IF_ERROR(load());
  }
  const std::unique_lock lock(mutex_);
  const auto found =
      std::find_if(by_hash_.begin(), by_hash_.end(), [&](const auto& entry) { return entry.second.id() == id; });
  if (found == by_hash_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no token \"", id, "\"; `tessera admin token list` shows all"));
  }
  v1::AccessToken token = found->second;
  if (token.revoke_time_us() == 0) {
    token.set_revoke_time_us(clock_.nowMicros());
    TESSERA_RETURN_IF_ERROR(
        store_.transact([&](storage::Transaction& tx) { return tx.putToken({token, found->first}); }));
    found->second = token;
  }
  return token;
}

absl::StatusOr<std::vector<v1::AccessToken>> TokenBook::list() const {
  if (is_shared_) {
    TESSERA_RETURN_IF_ERROR(load());
  }
  std::vector<v1::AccessToken> tokens;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [hash, token] : by_hash_) {
      if (!token.id().empty()) {
        tokens.push_back(token);
      }
    }
  }
  std::sort(tokens.begin(), tokens.end(), [](const v1::AccessToken& one, const v1::AccessToken& other) {
    return std::pair(one.create_time_us(), one.id()) < std::pair(other.create_time_us(), other.id());
  });
  return tokens;
}

std::string TokenBook::issueForThisProcess(const std::string& name, v1::Role role) {
  v1::AccessToken token;  // without an id: not listed, and not revocable
  token.set_name(name);
  token.set_role(role);
  std::string secret = newSecret(ids_);
  const std::unique_lock lock(mutex_);
  by_hash_[sha256Hex(secret)] = token;
  return secret;
}

bool TokenBook::mayLookUp() const {
  constexpr int64_t kBetweenLooksUs = 50'000;
  const std::lock_guard lock(looking_);
  const int64_t now_us = clock_.nowMicros();
  if (now_us < next_look_us_) {
    return false;
  }
  next_look_us_ = now_us + kBetweenLooksUs;
  return true;
}

absl::StatusOr<Caller> TokenBook::find(std::string_view secret) const {
  const std::string hash = sha256Hex(secret);
  std::shared_lock lock(mutex_);
  auto found = by_hash_.find(hash);
  if (found == by_hash_.end() && is_shared_ && mayLookUp()) {
    lock.unlock();
    TESSERA_RETURN_IF_ERROR(load());  // another server may have created it
    lock.lock();
    found = by_hash_.find(hash);
  }
  if (found == by_hash_.end()) {
    return absl::UnauthenticatedError("this token is not one of this service's");
  }
  const v1::AccessToken& token = found->second;
  if (token.revoke_time_us() > 0) {
    return absl::UnauthenticatedError(absl::StrCat("token ", token.id(), " of ", token.name(), " is revoked"));
  }
  if (token.expire_time_us() > 0 && token.expire_time_us() <= clock_.nowMicros()) {
    return absl::UnauthenticatedError(
        absl::StrCat("token ", token.id(), " of ", token.name(), " has expired; ask the operator for a new one"));
  }
  Caller caller;
  caller.name = token.name();
  caller.role = token.role();
  caller.anonymous = false;
  caller.project = projectOf(token);
  caller.credential = token.id().empty() ? "this process's own token" : absl::StrCat("token ", token.id());
  return caller;
}

bool TokenBook::isHolder(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  return std::any_of(by_hash_.begin(), by_hash_.end(), [&](const auto& entry) { return entry.second.name() == name; });
}

}  // namespace tessera::server
