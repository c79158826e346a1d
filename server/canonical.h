#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "proto/support/sha256.h"

namespace tessera::server {

/// SHA-256 over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ.
class KeyHash {
 public:
  /// Adds the part's length (8 bytes, little-endian) and its bytes.
  KeyHash& add(std::string_view part);
  /// 64 lower-case hexadecimal digits. Call once.
  std::string finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

/// The message's bytes with maps in key order and unknown fields left out: equal messages, equal bytes.
std::string canonicalBytes(const google::protobuf::Message& message);
/// The same of one that nobody needs any more.
std::string canonicalBytes(google::protobuf::Message&& message);

}  // namespace tessera::server
