#pragma once

#include <string>
#include <string_view>

namespace tessera::storage {

/// HMAC-SHA-256; returns 32 bytes.
std::string hmacSha256(std::string_view key, std::string_view bytes);

}  // namespace tessera::storage
