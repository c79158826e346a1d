#include "server/access/exposure.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

bool areLoopback(const std::vector<std::string>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), isLoopback);
}

}  // namespace

bool isLoopback(const std::string& address) {
  for (const char* local : {"unix:", "unix-abstract:", "localhost:", "[::1]:", "ipv6:[::1]:"}) {
    if (absl::StartsWith(address, local)) {
      return true;
    }
  }
  // 127.0.0.1:7400, but not the name 127.example.com:7400.
  const std::string host = address.substr(0, address.rfind(':'));
  const size_t start = absl::StartsWith(host, "ipv4:") ? 5 : 0;
  return absl::StartsWith(host.substr(start), "127.") &&
         host.find_first_not_of("0123456789.", start) == std::string::npos;
}

bool letsStrangersIn(const Exposure& exposure) {
  return exposure.insecure || (areLoopback(exposure.listen) && areLoopback(exposure.web_listen));
}

bool showsMetricsToAll(const Exposure& exposure) { return exposure.insecure || areLoopback(exposure.metrics_listen); }

absl::Status checkExposure(const Exposure& exposure) {
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
