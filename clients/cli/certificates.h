#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::client {

/// Request for the files that a service needs for TLS: an authority, a server certificate, and one certificate for each
/// caller.
struct CertificateRequest {
  std::string folder;                ///< created if absent, readable only by its owner
  std::vector<std::string> hosts;    ///< names and addresses of the server
  std::vector<std::string> callers;  ///< "role:name", e.g. "worker:build-1", or "client:ada?project=vision"
  int days = 365;
};

/// Writes ca.pem and ca.key (existing ones are kept and used), server.pem and server.key, and for each caller
/// ROLE-NAME.pem and .key (with a project ROLE-NAME-PROJECT). The certificate's URI "tessera://ROLE/NAME" or
/// "tessera://ROLE/NAME?project=PROJECT" tells the server the caller's role, name and project. Elliptic curve P-256,
/// SHA-256. Returns the written files.
absl::StatusOr<std::vector<std::string>> makeCertificates(const CertificateRequest& request);

}  // namespace tessera::client
