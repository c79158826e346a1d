#include "clients/cpp/trust.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/digest.h"
#include "clients/cpp/local_file.h"
#include "proto/messages/failure.h"
#include "proto/signing/artifact_signature.h"
#include "proto/support/read_file.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

std::string contentOf(const std::string& path) { return readFile(path).value_or(""); }

/// The first word of each line.
std::set<std::string> keysOf(const std::string& trust_file) {
  std::ifstream in(trust_file);
  std::set<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    const std::string key = line.substr(0, line.find_first_of(" \t\r"));
    if (!key.empty() && key[0] != '#') keys.insert(key);
  }
  return keys;
}

absl::Status untrusted(const std::string& path, const std::string& what, const std::string& found,
                       const std::string& accepted, const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat(path, ": ", what));
  failure.set_attribute("ARTIFACT");
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix(absl::StrCat(fix, "; or, if you know its origin, use --untrusted"));
  return failureStatus(failure);
}

/// Requests the service's signature of one of its own artifacts.
absl::StatusOr<ArtifactSignature> signatureOf(Channel& channel, const std::string& artifact_id) {
  v1::SignArtifactRequest request;
  request.set_artifact_id(artifact_id);
  TESSERA_ASSIGN_OR_RETURN(auto answer,
                           channel.call(channel.signing(), &v1::SigningService::Stub::SignArtifact, request));
  ArtifactSignature signature{artifact_id, answer.public_key(), answer.signature()};
  if (!verifies(signature)) {
    return absl::DataLossError(absl::StrCat("the service's signature of artifact ", artifact_id, " does not verify"));
  }
  return signature;
}

absl::Status checkKey(const std::string& what, const std::string& key, const std::string& trust_file) {
  if (keysOf(trust_file).contains(key)) return absl::OkStatus();
  std::error_code error;
  return untrusted(
      what,
      trust_file.empty()
          ? "it is signed by a key, but there is no home folder to hold trusted ones; set TESSERA_TRUST to a file"
      : !fs::exists(trust_file, error)
          ? absl::StrCat("it is signed by a key, but there is no file ", trust_file, " of trusted ones")
          : absl::StrCat("it is signed by a key that ", trust_file, " does not hold"),
      key, "a key that is trusted",
      "compare it with what `tessera admin signing-key` of the service says, which --trust adds");
}

}  // namespace

std::string defaultTrustFile() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? std::string(value) : std::string();
  };
  if (std::string file = set("TESSERA_TRUST"); !file.empty()) return file;
  if (const std::string config = set("XDG_CONFIG_HOME"); !config.empty()) return config + "/tessera/trusted-keys";
  if (const std::string home = set("HOME"); !home.empty()) return home + "/.config/tessera/trusted-keys";
  return "";
}

absl::Status trustKey(const std::string& trust_file, const std::string& public_key, const std::string& comment) {
  if (trust_file.empty()) {
    return absl::FailedPreconditionError(
        "there is no home folder to keep trusted keys in; set TESSERA_TRUST to a file");
  }
  std::error_code error;
  if (const fs::path folder = fs::path(trust_file).parent_path(); !folder.empty())
    fs::create_directories(folder, error);
  const int file = open(trust_file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const absl::Cleanup close = [file] {
    if (file >= 0) ::close(file);
  };
  // Concurrent commands may add the same key.
  if (file < 0 || flock(file, LOCK_EX) != 0) {
    return fileError(errno, absl::StrCat("cannot write the trusted keys ", trust_file));
  }
  if (keysOf(trust_file).contains(public_key)) return absl::OkStatus();
  const std::string before = contentOf(trust_file);
  const std::string line =
      absl::StrCat(before.empty() || before.back() == '\n' ? "" : "\n", public_key, " ", comment, "\n");
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return fileError(errno, absl::StrCat("cannot write the trusted keys ", trust_file));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> fetchSignature(Channel& channel, const std::string& artifact_id, const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(const auto signed_here, signatureOf(channel, artifact_id));
  const std::string file = resolveLinks(path + ".sig");
  std::error_code error;
  {
    std::ofstream out(file + ".part", std::ios::binary | std::ios::trunc);
    out << printSignature(signed_here);
    out.close();
    if (out) fs::rename(file + ".part", file, error);
    if (!out || error) return absl::InternalError(absl::StrCat("cannot write ", file));
  }
  return signed_here.public_key;
}

bool isLocalAddress(const std::string& address) {
  for (const char* local : {"unix:", "localhost:", "127.", "[::1]:"}) {
    if (absl::StartsWith(address, local)) {
      // Accept 127.0.0.1:7400, but not the host name 127.example.com:7400.
      return address[0] != '1' || address.find_first_not_of("0123456789.:") == std::string::npos;
    }
  }
  return false;
}

absl::Status checkTrusted(int artifact, const std::string& path, const std::string& trust_file) {
  std::error_code error;
  const auto signature = parseSignature(contentOf(path + ".sig"));
  if (!signature.ok()) {
    return untrusted(path,
                     absl::StrCat("its native code has no trusted signature: ", path, ".sig ",
                                  fs::exists(path + ".sig", error) ? "is no signature" : "is not there"),
                     "no signature", "an artifact with the signature of a service whose key is trusted",
                     "fetch it again (`tessera fetch` writes both files), and keep the two together");
  }
  TESSERA_ASSIGN_OR_RETURN(const auto digest, digestOfFile(artifact, path));
  if (digest.sha256() != signature->sha256 || !verifies(*signature)) {
    return untrusted(path, "the signature does not match: the file or its signature was changed", digest.sha256(),
                     signature->sha256, "fetch it again");
  }
  return checkKey(path, signature->public_key, trust_file);
}

absl::Status checkTrusted(Channel& channel, const std::string& artifact_id, const v1::Digest& digest,
                          const std::string& trust_file) {
  TESSERA_ASSIGN_OR_RETURN(const auto signature, signatureOf(channel, artifact_id));
  if (digest.sha256() != artifact_id) {
    return untrusted(artifact_id, "the received bytes differ from those that the service signed", digest.sha256(),
                     artifact_id, "fetch it again");
  }
  return isLocalAddress(channel.address()) ? absl::OkStatus() : checkKey(artifact_id, signature.public_key, trust_file);
}

}  // namespace tessera::client
