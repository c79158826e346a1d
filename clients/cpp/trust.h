#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"

/// Trust in artifacts: clients run only artifacts that are signed by a trusted key. FILE.sig holds the signature of
/// FILE.
namespace tessera::client {

/// $TESSERA_TRUST, else $XDG_CONFIG_HOME/tessera/trusted-keys or ~/.config/tessera/trusted-keys. The file has one
/// public key per line, optionally followed by a comment; lines that start with "#" are comments. Empty if there is no
/// home folder.
std::string defaultTrustFile();

/// Adds a key with a comment, unless the file has it.
absl::Status trustKey(const std::string& trust_file, const std::string& public_key, const std::string& comment);

/// Requests the service's signature of its own artifact, verifies it, and writes `path`.sig. Returns the public key.
absl::StatusOr<std::string> fetchSignature(Channel& channel, const std::string& artifact_id, const std::string& path);

/// Whether the address is local (loopback, a Unix socket). The key of a local service is trusted without a question,
/// since it runs code on this machine anyway.
bool isLocalAddress(const std::string& address);

/// OK if the open file `artifact`, byte for byte, is signed by a trusted key; reads the whole file. INVALID_INPUT names
/// the fault and the remedy. The file was opened as `path`; meanwhile `path` may name another file.
absl::Status checkTrusted(int artifact, const std::string& path, const std::string& trust_file);

/// The same for an artifact of a service, with the given digest: requests the service's signature. A local service is
/// trusted.
absl::Status checkTrusted(Channel& channel, const std::string& artifact_id, const v1::Digest& digest,
                          const std::string& trust_file);

}  // namespace tessera::client
