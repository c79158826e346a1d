#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gateway/web_limits.h"
#include "server/tls.h"

namespace tessera::server::gateway {

struct WebOptions {
  std::vector<std::string> listen;  ///< host:port (port 0: any free one)
  std::vector<std::string>
      hosts;  ///< names of the page's host, in addition to localhost, numeric addresses and this machine's name
  std::optional<Tls> tls;
  WebLimits limits;
};

/// The web page and the API as JSON over HTTP/1.1. It calls the services over a channel in this process and passes the
/// caller's identity on, so that identity, checks and errors are those of gRPC (routes.h, transcoding.h).
class Gateway {
 public:
  /// Errors are those of Listener::open for the first address that fails, and of tlsContext.
  static absl::StatusOr<std::unique_ptr<Gateway>> start(const WebOptions& options,
                                                        std::shared_ptr<grpc::Channel> services);
  virtual ~Gateway() = default;

  /// Actual addresses, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;
  /// Ends event streams, finishes other answers, and stops. Idempotent.
  virtual void stop() = 0;
};

}  // namespace tessera::server::gateway
