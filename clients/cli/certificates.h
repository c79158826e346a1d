#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::client {

/// What a service needs to talk TLS: an authority, a certificate for the server, and one for each caller that shows
/// one.
struct CertificateRequest {
  std::string folder;                ///< made when absent, for its owner alone
  std::vector<std::string> hosts;    ///< names and addresses the server is called by
  std::vector<std::string> callers;  ///< "role:name", e.g. "worker:build-1", or "client:ada?project=vision"
  int days = 365;
};

/// Writes ca.pem and ca.key (kept when they are there, so that more can be made later), server.pem and server.key, and
/// ROLE-NAME.pem and .key (of a project ROLE-NAME-PROJECT) for each caller, whose role, name and project the server
/// reads from the certificate's URI "tessera://ROLE/NAME" or "tessera://ROLE/NAME?project=PROJECT". Elliptic curve
/// P-256, SHA-256. Returns the files that were written.
absl::StatusOr<std::vector<std::string>> makeCertificates(const CertificateRequest& request);

}  // namespace tessera::client
