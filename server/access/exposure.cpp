#include "server/access/exposure.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

bool areLoopback(const std::vector<std::string>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), isLoopback);
}

bool isAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  return colon != std::string::npos && colon > 0 && absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
         port <= 65535;
}

absl::Status checkAddresses(const char* flag, const std::vector<std::string>& addresses, bool sockets) {
  for (const std::string& address : addresses) {
    const bool is_socket =
        sockets && (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:"));
    if (!is_socket && !isAddress(address)) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": found '", address, "', accepted: host:port",
                                                     sockets ? " or unix:/path" : "", ", a port of 0 to 65535"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool isLoopback(const std::string& address) {
  for (const char* local : {"unix:", "unix-abstract:", "localhost:", "[::1]:", "ipv6:[::1]:"}) {
    if (absl::StartsWith(address, local)) {
      return true;
    }
  }
  // Matches 127.0.0.1:7400, but not the host name 127.example.com:7400.
  const std::string host = address.substr(0, address.rfind(':'));
  const size_t start = absl::StartsWith(host, "ipv4:") ? 5 : 0;
  return absl::StartsWith(host.substr(start), "127.") &&
         host.find_first_not_of("0123456789.", start) == std::string::npos;
}

bool allowsAnonymous(const Exposure& exposure) {
  return exposure.insecure || (areLoopback(exposure.listen) && areLoopback(exposure.web_listen));
}

bool showsMetricsToAll(const Exposure& exposure) { return exposure.insecure || areLoopback(exposure.metrics_listen); }

absl::Status checkExposure(const Exposure& exposure) {
  TESSERA_RETURN_IF_ERROR(checkAddresses("--listen", exposure.listen, true));
  TESSERA_RETURN_IF_ERROR(checkAddresses("--worker-listen", exposure.worker_listen, true));
  TESSERA_RETURN_IF_ERROR(checkAddresses("--web-listen", exposure.web_listen, false));
  TESSERA_RETURN_IF_ERROR(checkAddresses("--metrics-listen", exposure.metrics_listen, false));
  if (exposure.tls || exposure.insecure) {
    return absl::OkStatus();
  }
  for (const auto* addresses :
       {&exposure.listen, &exposure.worker_listen, &exposure.web_listen, &exposure.metrics_listen}) {
    for (const std::string& address : *addresses) {
      if (!isLoopback(address)) {
        return absl::FailedPreconditionError(absl::StrCat(
            address, " can be reached by others, who could read all that passes and would be let in by nothing: give ",
            "--tls-cert and --tls-key (`tessera admin certificates` makes some to try), and callers a token ",
            "(`tessera admin token create`); or say --insecure-let-anyone-in"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
