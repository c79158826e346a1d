#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tessera::server {

/// Which listeners other hosts can reach, and how they are protected.
struct Exposure {
  std::vector<std::string> listen, worker_listen, web_listen, metrics_listen;
  bool tls = false;
  bool insecure = false;  ///< the operator has permitted it explicitly
};

/// Whether only this machine can reach the address: unix:/path or a loopback address.
bool isLoopback(const std::string& address);

/// Whether callers without a credential are accepted by the client listeners and the web page: only if none of these
/// can be reached by other hosts.
bool allowsAnonymous(const Exposure& exposure);

/// Whether /metrics needs no token.
bool showsMetricsToAll(const Exposure& exposure);

/// INVALID_ARGUMENT for a malformed address, naming the flag. FAILED_PRECONDITION for an address that other hosts can
/// reach without TLS, unless `insecure`, with the remedy.
absl::Status checkExposure(const Exposure& exposure);

}  // namespace tessera::server
