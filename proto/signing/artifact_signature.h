#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Who vouches for an artifact: Ed25519 over its SHA-256, through OpenSSL. The signature lies beside the artifact, in
/// FILE.sig, not within: equal requests make equal bytes, whoever signs them.
namespace tessera {

/// A service's private key. Thread-safe.
class SigningKey {
 public:
  /// The key in `path` (PEM), made there for its owner's eyes alone when there is none. FAILED_PRECONDITION when the
  /// file is no Ed25519 key, or others may read it.
  static absl::StatusOr<SigningKey> open(const std::string& path);
  /// One that nobody keeps.
  static absl::StatusOr<SigningKey> ephemeral();

  /// 64 hexadecimal digits.
  const std::string& publicKey() const { return public_key_; }
  /// Equal ones for equal artifacts (RFC 8032): 128 hexadecimal digits. `sha256` is 64 of them.
  absl::StatusOr<std::string> sign(std::string_view sha256) const;

 private:
  explicit SigningKey(std::shared_ptr<EVP_PKEY> key);
  std::shared_ptr<EVP_PKEY> key_;
  std::string public_key_;
};

/// What lies in FILE.sig, as lines: "tessera-signature 1", "artifact SHA256", "key PUBLIC", "signature SIGNATURE".
struct ArtifactSignature {
  std::string sha256, public_key, signature;
};
std::string printSignature(const ArtifactSignature& signature);
/// INVALID_ARGUMENT for anything else.
absl::StatusOr<ArtifactSignature> parseSignature(std::string_view text);

/// Whether the key's owner signed this artifact. Says nothing of whether to trust that key.
bool verifies(const ArtifactSignature& signature);

}  // namespace tessera
