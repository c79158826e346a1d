#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/gateway/upstream.h"
#include "server/gateway/web_limits.h"

namespace tessera::server::gateway {

/// What answers the requests that listeners take. Thread-safe.
class HttpService {
 public:
  virtual ~HttpService() = default;
  /// What is wrong with a request before it is looked at, and its body read; sets the answer then.
  virtual bool refuse(const httplib::Request& request, httplib::Response& response) const = 0;
  virtual void answer(const httplib::Request& request, const WebCaller& caller, httplib::Response& response) = 0;
};

/// One address. httplib reads and writes HTTP; connections, their bounds and TLS are ours.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Fills in the port. `flag` is what the address was given with. FAILED_PRECONDITION when it cannot be listened on.
  virtual absl::Status open(std::string& address, const char* flag) = 0;
  /// Finishes what is being answered and stops. Idempotent.
  virtual void end() = 0;
};

/// `service` must outlive the listener. `tls`: nullptr in the clear.
std::unique_ptr<Listener> makeListener(HttpService& service, std::shared_ptr<SSL_CTX> tls, const WebLimits& limits);

}  // namespace tessera::server::gateway
