#include "storage/s3/sigv4.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/support/sha256.h"
#include "storage/hmac.h"

namespace tessera::storage {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";

/// Value of a header in canonical form: without outer spaces, inner spaces collapsed.
std::string canonicalValue(const std::string& value) {
  return absl::StrJoin(absl::StrSplit(absl::StripAsciiWhitespace(value), ' ', absl::SkipEmpty()), " ");
}

std::string signingKey(const SigningScope& scope, const std::string& secret) {
  std::string key = hmacSha256("AWS4" + secret, scope.time.substr(0, 8));
  for (const std::string& part : {scope.region, scope.service, std::string("aws4_request")}) {
    key = hmacSha256(key, part);
  }
  return key;
}

}  // namespace

std::string uriEncode(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes)) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::string canonicalQuery(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : query) {
    parts.push_back(absl::StrCat(uriEncode(name, false), "=", uriEncode(value, false)));
  }
  std::ranges::sort(parts);
  return absl::StrJoin(parts, "&");
}

std::string authorizationHeader(const SignableRequest& request, const SigningScope& scope,
                                const S3Credentials& credentials) {
  std::string headers, names;
  for (const auto& [name, value] : request.headers) {
    absl::StrAppend(&headers, name, ":", canonicalValue(value), "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", name);
  }
  const std::string canonical =
      absl::StrCat(request.method, "\n", uriEncode(request.path, true), "\n", canonicalQuery(request.query), "\n",
                   headers, "\n", names, "\n", request.payload_sha256);
  const std::string place =
      absl::StrCat(scope.time.substr(0, 8), "/", scope.region, "/", scope.service, "/aws4_request");
  const std::string to_sign = absl::StrCat(kAlgorithm, "\n", scope.time, "\n", place, "\n", sha256Hex(canonical));
  const std::string signature =
      absl::BytesToHexString(hmacSha256(signingKey(scope, credentials.secret_access_key), to_sign));
  return absl::StrCat(kAlgorithm, " Credential=", credentials.access_key_id, "/", place, ", SignedHeaders=", names,
                      ", Signature=", signature);
}

}  // namespace tessera::storage
