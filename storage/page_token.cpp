#include "storage/page_token.h"

#include <openssl/crypto.h>

#include "absl/strings/escaping.h"
#include "proto/messages/failure.h"
#include "storage/hmac.h"
#include "tessera/v1/storage.pb.h"

namespace tessera::storage {
namespace {

/// Bytes of the HMAC that are kept. A forged token would only give access to another position of the same list.
constexpr size_t kTagBytes = 16;

std::string tagOf(std::string_view body, std::string_view key) { return hmacSha256(key, body).substr(0, kTagBytes); }

absl::Status tokenError(const char* found) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_attribute("page_token");
  failure.set_found(found);
  failure.set_accepted("next_page_token of the previous answer, with the same filter and order_by");
  failure.set_fix("start again without a page_token");
  failure.set_message(std::string("page_token: found ") + found + "; accepted: " + failure.accepted() +
                      "; or start again without one");
  return failureStatus(failure);
}

}  // namespace

std::string makePageToken(std::string_view fingerprint, const std::vector<Value>& last, std::string_view key) {
  v1::PageCursor cursor;
  cursor.set_query(std::string(fingerprint));
  for (const Value& value : last) {
    v1::PageCursor::Value* stored = cursor.add_values();
    if (const auto* integer = std::get_if<int64_t>(&value)) stored->set_integer(*integer);
    if (const auto* real = std::get_if<double>(&value)) stored->set_real(*real);
    if (const auto* text = std::get_if<std::string>(&value)) stored->set_text(*text);
  }
  const std::string body = cursor.SerializeAsString();
  return absl::WebSafeBase64Escape(tagOf(body, key) + body);
}

absl::StatusOr<std::vector<Value>> readPageToken(std::string_view token, std::string_view fingerprint,
                                                 std::string_view key) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(absl::string_view(token.data(), token.size()), &bytes) || bytes.size() < kTagBytes) {
    return tokenError("a text that is not a page token");
  }
  const std::string body = bytes.substr(kTagBytes);
  const std::string tag = tagOf(body, key);
  v1::PageCursor cursor;
  if (CRYPTO_memcmp(tag.data(), bytes.data(), kTagBytes) != 0 || !cursor.ParseFromString(body)) {
    return tokenError("a token that this database did not issue, or that was modified");
  }
  if (cursor.query() != fingerprint) return tokenError("a token of another list, filter or order");
  std::vector<Value> last;
  for (const v1::PageCursor::Value& value : cursor.values()) {
    if (value.has_integer()) last.emplace_back(value.integer());
    if (value.has_real()) last.emplace_back(value.real());
    if (value.has_text()) last.emplace_back(value.text());
  }
  return last;
}

}  // namespace tessera::storage
