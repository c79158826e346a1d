#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "proto/support/sha256.h"

namespace tessera::server {

/// SHA-256 over length-prefixed parts: ("ab", "c") and ("a", "bc") differ.
class KeyHash {
 public:
  /// Adds the part's length (8 bytes, little-endian) and its bytes.
  KeyHash& add(std::string_view part);
  /// Returns 64 lower-case hexadecimal digits. Call once.
  std::string finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

/// Serializes a message with map entries in key order and without unknown fields: equal messages give equal bytes.
std::string canonicalBytes(const google::protobuf::Message& message);
/// Likewise; modifies the message instead of copying it.
std::string canonicalBytes(google::protobuf::Message&& message);

}  // namespace tessera::server
