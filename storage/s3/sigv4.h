#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::storage {

/// Keys of an S3 account. `session_token` is empty for permanent keys.
struct S3Credentials {
  std::string access_key_id, secret_access_key, session_token;
};

/// A request to be signed.
struct SignableRequest {
  std::string method;
  std::string path = "/";                                       ///< not encoded
  std::vector<std::pair<std::string, std::string>> query = {};  ///< not encoded
  std::map<std::string, std::string> headers = {};              ///< by lower-case name; all are signed
  std::string payload_sha256;                                   ///< hexadecimal
};

/// Where and when a signature is valid.
struct SigningScope {
  std::string region, service;
  std::string time;  ///< UTC, as 20130524T000000Z
};

/// Percent-encodes as SigV4 does: all but letters, digits, "-", ".", "_" and "~"; "/" too unless `keep_slashes`.
std::string uriEncode(std::string_view text, bool keep_slashes);

/// Query in canonical form: sorted and encoded.
std::string canonicalQuery(const std::vector<std::pair<std::string, std::string>>& query);

/// The header Authorization of AWS Signature Version 4 (AWS4-HMAC-SHA256).
std::string authorizationHeader(const SignableRequest& request, const SigningScope& scope,
                                const S3Credentials& credentials);

}  // namespace tessera::storage
