#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"

/// Which artifacts to run: those that a service signed whose key is trusted. The signature of FILE lies in FILE.sig.
namespace tessera::client {

/// $TESSERA_TRUST, else $XDG_CONFIG_HOME/tessera/trusted-keys or ~/.config/tessera/trusted-keys: public keys, one a
/// line, with a comment behind each or a line of its own behind "#". Empty when there is no home.
std::string defaultTrustFile();

/// Adds a key with a comment, unless it is there.
absl::Status trustKey(const std::string& trust_file, const std::string& public_key, const std::string& comment);

/// Asks the service to sign an artifact of its own and writes `path`.sig, checked. The answer is the public key.
absl::StatusOr<std::string> keepSignature(Channel& channel, const std::string& artifact_id, const std::string& path);

/// Whether a service's address is one of this machine (loopback, a Unix socket): who reaches it there runs what it
/// makes.
bool isOnThisMachine(const std::string& address);

/// OK when the open file `artifact` is, byte for byte, what a trusted key's owner signed; reads it all. INVALID_INPUT
/// says what is wrong and what to do. The file was opened as `path`, which may name another meanwhile.
absl::Status checkTrusted(int artifact, const std::string& path, const std::string& trust_file);

/// The same for an artifact that came from a service and has `digest`: the service is asked to sign it. One on this
/// machine is trusted.
absl::Status checkTrusted(Channel& channel, const std::string& artifact_id, const v1::Digest& digest,
                          const std::string& trust_file);

}  // namespace tessera::client
