#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Signatures of artifacts: Ed25519 over the SHA-256 of the artifact, by OpenSSL. The signature is stored in a separate
/// file, FILE.sig, so that equal requests give equal artifacts regardless of the signer.
namespace tessera {

/// A service's private key. Thread-safe.
class SigningKey {
 public:
  /// Reads the key from `path` (PEM), or creates it there with owner-only permissions if there is no file.
  /// FAILED_PRECONDITION if the file is not an Ed25519 key or is readable by others.
  static absl::StatusOr<SigningKey> open(const std::string& path);
  /// Reads a key in the form that pem() returns. FAILED_PRECONDITION if it is none.
  static absl::StatusOr<SigningKey> parse(const std::string& pem);
  /// Returns a new key that is not stored.
  static absl::StatusOr<SigningKey> ephemeral();

  /// The private key as PEM text.
  absl::StatusOr<std::string> pem() const;
  /// 64 hexadecimal digits.
  const std::string& publicKey() const { return public_key_; }
  /// Signs a digest of 64 hexadecimal digits. Returns 128 hexadecimal digits, equal for equal digests (RFC 8032).
  absl::StatusOr<std::string> sign(std::string_view sha256) const;

 private:
  explicit SigningKey(std::shared_ptr<EVP_PKEY> key);
  std::shared_ptr<EVP_PKEY> key_;
  std::string public_key_;
};

/// Content of FILE.sig, as lines: "tessera-signature 1", "artifact SHA256", "key PUBLIC", "signature SIGNATURE".
struct ArtifactSignature {
  std::string sha256, public_key, signature;
};
std::string printSignature(const ArtifactSignature& signature);
/// INVALID_ARGUMENT if the text does not have this form.
absl::StatusOr<ArtifactSignature> parseSignature(std::string_view text);

/// Whether the owner of the key signed this artifact. Does not say whether that key is trusted.
bool verifies(const ArtifactSignature& signature);

}  // namespace tessera
