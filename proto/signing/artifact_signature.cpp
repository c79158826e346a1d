#include "proto/signing/artifact_signature.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/support/status_macros.h"

namespace tessera {
namespace {

constexpr size_t kDigestDigits = 64, kKeyDigits = 64, kSignatureDigits = 128;
constexpr char kHead[] = "tessera-signature 1";

using Key = std::shared_ptr<EVP_PKEY>;
using File = std::unique_ptr<FILE, decltype(&fclose)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

absl::Status failed(const std::string& what) {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  return absl::InternalError(
      absl::StrCat("cannot ", what, reason != nullptr ? ": " : "", reason != nullptr ? reason : ""));
}

bool isHex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// What is signed: a digest for one purpose, so that no signature of anything else can pass for one.
std::string signedText(std::string_view sha256) {
  return absl::StrCat("tessera artifact 1\n", absl::string_view(sha256.data(), sha256.size()), "\n");
}

const unsigned char* bytes(const std::string& text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// The signed text. Its prefix separates this use of the key from any other (domain separation).
Key generate() { return {EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free}; }

/// Writes the key to a temporary name, syncs it and renames it, so that a crash leaves no partial key.
absl::Status store(const Key& key, const std::string& path) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const File file(descriptor >= 0 ? fdopen(descriptor, "w") : nullptr, &fclose);
  if (!file || PEM_write_PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      fflush(file.get()) != 0 || fsync(fileno(file.get())) != 0 || rename(fresh.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the signing key ", path));
  }
  return absl::OkStatus();
}

}  // namespace

SigningKey::SigningKey(Key key) : key_(std::move(key)) {
  std::string raw(kKeyDigits / 2, '\0');
  size_t size = raw.size();
  EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size);
  public_key_ = absl::BytesToHexString(raw);
}

absl::StatusOr<SigningKey> SigningKey::ephemeral() {
  Key key = generate();
  if (!key) return failed("make a signing key");
  return SigningKey(std::move(key));
}

absl::StatusOr<SigningKey> SigningKey::parse(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                       &BIO_free);
  Key key(text ? PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr) : nullptr, &EVP_PKEY_free);
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    ERR_clear_error();
    return absl::FailedPreconditionError("the stored signing key is not an Ed25519 private key (PEM)");
  }
  return SigningKey(std::move(key));
}

absl::StatusOr<std::string> SigningKey::pem() const {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), &BIO_free);
  if (!text || PEM_write_bio_PrivateKey(text.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed("write a signing key");
  }
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

absl::StatusOr<SigningKey> SigningKey::open(const std::string& path) {
  const File file(fopen(path.c_str(), "re"), &fclose);
  if (!file) {
    if (errno != ENOENT) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the signing key ", path));
    absl::StatusOr<SigningKey> made = ephemeral();
    if (!made.ok()) return made;
    TESSERA_RETURN_IF_ERROR(store(made->key_, path));
    return made;
  }
  struct stat facts{};
  // Check the open file, not its name, which could be replaced in between.
  if (fstat(fileno(file.get()), &facts) != 0 || (facts.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the signing key ", path, " is readable by others, who could sign as this service; chmod 600, or remove it: ",
        "a new key is then created, which clients must trust again"));
  }
  Key key(PEM_read_PrivateKey(file.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    ERR_clear_error();
    return absl::FailedPreconditionError(absl::StrCat(path, " is not an Ed25519 private key (PEM)"));
  }
  return SigningKey(std::move(key));
}

absl::StatusOr<std::string> SigningKey::sign(std::string_view sha256) const {
  if (!isHex(sha256, kDigestDigits)) return absl::InvalidArgumentError("an artifact is signed by its SHA-256");
  const std::string text = signedText(sha256);
  const Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::string signature(kSignatureDigits / 2, '\0');
  size_t size = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes(text),
                     text.size()) != 1) {
    return failed("sign an artifact");
  }
  return absl::BytesToHexString(signature);
}

std::string printSignature(const ArtifactSignature& signature) {
  return absl::StrCat(kHead, "\nartifact ", signature.sha256, "\nkey ", signature.public_key, "\nsignature ",
                      signature.signature, "\n");
}

absl::StatusOr<ArtifactSignature> parseSignature(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  ArtifactSignature signature;
  const auto take = [&](size_t line, absl::string_view name, size_t digits, std::string& value) {
    const std::string& found = lines[line];
    if (!absl::StartsWith(found, name)) return false;
    value = found.substr(name.size());
    return isHex(value, digits);
  };
  if (lines.size() != 5 || lines[0] != kHead || !take(1, "artifact ", kDigestDigits, signature.sha256) ||
      !take(2, "key ", kKeyDigits, signature.public_key) ||
      !take(3, "signature ", kSignatureDigits, signature.signature) || !lines[4].empty()) {
    return absl::InvalidArgumentError("it is no signature of an artifact (tessera-signature 1)");
  }
  return signature;
}

bool verifies(const ArtifactSignature& signature) {
  if (!isHex(signature.sha256, kDigestDigits) || !isHex(signature.public_key, kKeyDigits) ||
      !isHex(signature.signature, kSignatureDigits)) {
    return false;
  }
  const std::string raw_key = absl::HexStringToBytes(signature.public_key);
  const std::string raw_signature = absl::HexStringToBytes(signature.signature);
  const std::string text = signedText(signature.sha256);
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(raw_key), raw_key.size()), &EVP_PKEY_free);
  const Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const bool good =
      key && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestVerify(context.get(), bytes(raw_signature), raw_signature.size(), bytes(text), text.size()) == 1;
  ERR_clear_error();
  return good;
}

}  // namespace tessera
