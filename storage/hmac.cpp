#include "storage/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>

namespace tessera::storage {

std::string hmacSha256(std::string_view key, std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // Fails only if memory is exhausted or the library is broken.
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
           bytes.size(), digest, &size) == nullptr)
    std::abort();
  return std::string(reinterpret_cast<const char*>(digest), size);
}

}  // namespace tessera::storage
