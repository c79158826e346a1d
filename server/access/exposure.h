#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tessera::server {

/// What of the service others than this machine's users can reach, and what stands before it.
struct Exposure {
  std::vector<std::string> listen, worker_listen, web_listen, metrics_listen;
  bool tls = false;
  bool insecure = false;  ///< the operator wants it so, in so many words
};

/// Whether an address can be reached from this machine alone: unix:/path, or a loopback one.
bool isLoopback(const std::string& address);

/// Whether those who show no credential are let in on the clients' addresses, the web page's among them: only where all
/// of them are this machine's.
bool allowsAnonymous(const Exposure& exposure);

/// Whether metrics are told to everybody who reaches their addresses.
bool showsMetricsToAll(const Exposure& exposure);

/// INVALID_ARGUMENT for what is no address, with the flag; FAILED_PRECONDITION for an address that others can reach
/// without TLS, unless told so; what to do is in the message.
absl::Status checkExposure(const Exposure& exposure);

}  // namespace tessera::server
