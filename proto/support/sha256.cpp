#include "proto/support/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace tessera {
namespace {

// OpenSSL's hash calls fail only if memory is exhausted or the library is broken. Continuing would store
// data under a wrong digest, so the process aborts.
void require(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  // Fetch the algorithm once: with EVP_sha256(), each hash would look it up again.
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  require(context_ && algorithm && EVP_DigestInit_ex(context_, algorithm, nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::update(std::string_view bytes) { require(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1); }

std::string Sha256::finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_, digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

bool isSha256(std::string_view text) {
  if (text.size() != 64) return false;
  for (char c : text) {
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return false;
  }
  return true;
}

}  // namespace tessera
