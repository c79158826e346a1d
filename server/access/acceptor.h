#pragma once

#include <grpcpp/server_builder.h>
#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/access/concurrency_limiter.h"

namespace tessera::server {

/// Accepts connections for a gRPC server, which itself would accept any number: limited in total and per host (an IPv6
/// network of /64). An excess connection is closed as soon as it is open, and its caller gets UNAVAILABLE. A connection
/// counts until both sides have closed it.
class Acceptor {
 public:
  using Hand = std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  /// `places` may be shared by several acceptors.
  explicit Acceptor(std::shared_ptr<ConcurrencyLimiter> places) : limiter_(std::move(places)) {}
  ~Acceptor();

  /// `address` is host:port; the actual port is filled in. FAILED_PRECONDITION if it cannot be listened on.
  absl::Status listen(std::string& address, const Hand& hand);
  /// Starts to accept, once the server has started. Call once.
  void start();
  /// Stops accepting. Open connections stay with the server. Idempotent.
  void stop();

 private:
  struct Listener {
    Hand hand;
    int socket = -1;
  };
  void loop();
  void takeAll(const Listener& listener);
  void take(const Listener& listener, int socket, const std::string& machine);
  void tellOfRefusals();

  const std::shared_ptr<ConcurrencyLimiter> limiter_;
  std::vector<Listener> listeners_;
  int poll_ = -1, wake_ = -1;
  std::thread thread_;
  /// For each open connection a second descriptor, which reports its end, and its place. Used by the thread only.
  std::map<int, std::shared_ptr<void>> open_;
  int64_t refused_ = 0, told_s_ = 0;
  std::string last_refused_;
};

/// The unit in which connections are counted: "10.0.0.7", "2001:db8:1:2::/64".
std::string machineOf(const sockaddr* address);

}  // namespace tessera::server
