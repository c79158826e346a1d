#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera {

/// Who a client or a worker is to the service, and whom it takes for the service. All empty: a stranger, in plain text,
/// which is what a service on this machine lets in.
struct Identity {
  std::string token;       ///< shown with every call (`authorization: Bearer`)
  std::string token_file;  ///< the file it is in, instead: looked at with every call, so that it can be renewed
  std::string ca_file;     ///< TLS: the authority that vouches for the server (PEM)
  std::string certificate_file, key_file;  ///< shown to the server (PEM)
  std::string project;                     ///< that an operator speaks for; empty: the credential's own
  bool token_in_clear = false;             ///< show the token even where others can listen

  bool tls() const { return !ca_file.empty() || !certificate_file.empty(); }
};

/// What is not set there, from TESSERA_TOKEN, TESSERA_TOKEN_FILE, TESSERA_TLS_CA, TESSERA_TLS_CERT, TESSERA_TLS_KEY and
/// TESSERA_PROJECT.
Identity withEnvironment(Identity identity);

/// Whether an address is of this machine alone: unix:/path, localhost, 127.x.y.z, [::1].
bool isLocalAddress(const std::string& address);

/// A channel that shows `identity` with every call. Connects lazily. INVALID_ARGUMENT for an address that
/// is none, files that cannot be read or hold something else, and where a token would cross a network in plain text.
absl::StatusOr<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const Identity& identity,
                                                           const grpc::ChannelArguments& arguments);

}  // namespace tessera
