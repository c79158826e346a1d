#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/gateway/upstream.h"
#include "server/gateway/web_limits.h"

namespace tessera::server::gateway {

/// Answers the requests of listeners. Thread-safe.
class HttpService {
 public:
  virtual ~HttpService() = default;
  /// Checks a request before its body is read; if it is invalid, sets the answer.
  virtual bool refuse(const httplib::Request& request, httplib::Response& response) const = 0;
  virtual void answer(const httplib::Request& request, const WebCaller& caller, httplib::Response& response) = 0;
};

/// One address. httplib parses HTTP; connections, limits and TLS are implemented here.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Listens on `address`, "host:port", and replaces port 0 by the port that the system chose. `flag`: the command-line
  /// flag that gave the address, for errors. INVALID_ARGUMENT if the address has another form; FAILED_PRECONDITION if
  /// the system refuses it, for example because the port is in use.
  virtual absl::Status open(std::string& address, const char* flag) = 0;
  /// Finishes answers in progress and stops. Idempotent.
  virtual void end() = 0;
};

/// `service` must outlive the listener. `tls`: nullptr for plain connections.
std::unique_ptr<Listener> makeListener(HttpService& service, std::shared_ptr<SSL_CTX> tls, const WebLimits& limits);

}  // namespace tessera::server::gateway
