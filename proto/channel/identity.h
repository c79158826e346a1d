#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera {

/// Credentials of a client or worker, and the trust anchor for the server. If all fields are empty, calls are anonymous
/// and in plain text; a service accepts such calls from its own machine.
struct Identity {
  std::string token;  ///< sent with each call (`authorization: Bearer`)
  /// Alternative to `token`: a file, checked for changes on each call so that the token can be renewed.
  std::string token_file;
  std::string ca_file;                     ///< TLS: certificate authority of the server (PEM)
  std::string certificate_file, key_file;  ///< client certificate for the server (PEM)
  std::string project;                     ///< project that an operator acts for; empty: the credential's own
  bool allow_plaintext_token = false;      ///< send the token even over an unencrypted network connection

  bool tls() const { return !ca_file.empty() || !certificate_file.empty(); }
};

/// Fills empty fields from TESSERA_TOKEN, TESSERA_TOKEN_FILE, TESSERA_TLS_CA, TESSERA_TLS_CERT, TESSERA_TLS_KEY and
/// TESSERA_PROJECT.
Identity withEnvironment(Identity identity);

/// Whether the address refers to this machine: unix:/path, localhost, 127.x.y.z, [::1]. Of a list, whether all do.
bool isLocalAddress(const std::string& address);

/// Returns a channel that sends the credentials with each call. It connects lazily. INVALID_ARGUMENT: malformed
/// address, unreadable or malformed credential file, or a token that would cross a network unencrypted.
///
/// `address` may be a list of IPv4 addresses, "10.0.0.1:7401,10.0.0.2:7401": the channel uses one of these servers,
/// chosen at random, and another one when that does not answer. With TLS, the certificate of each server must name the
/// first address of the list.
absl::StatusOr<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const Identity& identity,
                                                           const grpc::ChannelArguments& arguments);

}  // namespace tessera
