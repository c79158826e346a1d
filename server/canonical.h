#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/message.h"

struct evp_md_ctx_st;

namespace tessera::server {

/// SHA-256 over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ.
class KeyHash {
 public:
  KeyHash();
  ~KeyHash();
  KeyHash(const KeyHash&) = delete;
  KeyHash& operator=(const KeyHash&) = delete;

  /// Adds the part's length (8 bytes, little-endian) and its bytes.
  KeyHash& add(std::string_view part);
  /// Adds bytes as they are: for hashing a stream of chunks.
  KeyHash& addRaw(std::string_view bytes);
  /// 64 lower-case hexadecimal digits. Call once.
  std::string finish();

 private:
  evp_md_ctx_st* context_;
};

/// SHA-256 of plain bytes.
std::string sha256Hex(std::string_view bytes);

/// The message's bytes with maps in key order and unknown fields left out: equal messages, equal bytes.
std::string canonicalBytes(const google::protobuf::Message& message);

/// Whether `text` is 64 lower-case hexadecimal digits.
bool isSha256(std::string_view text);

}  // namespace tessera::server
