#pragma once

#include <string_view>

namespace tessera::server {

/// Whether two secrets are equal. The time does not depend on where they differ.
inline bool equalSecrets(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) {
    return false;
  }
  unsigned char differing = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    differing |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return differing == 0;
}

}  // namespace tessera::server
