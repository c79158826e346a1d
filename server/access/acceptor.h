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

/// Takes connections for a gRPC server, which itself would take as many as come: so many at a time, all together and of
/// one machine (of one IPv6 network of /64). Past that a connection is closed as soon as it is open; its caller reads
/// UNAVAILABLE. A connection counts until both sides have ended it.
class Acceptor {
 public:
  using Hand = std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  /// `places` may be shared with others.
  explicit Acceptor(std::shared_ptr<ConcurrencyLimiter> places) : limiter_(std::move(places)) {}
  ~Acceptor();

  /// "host:port"; fills in the port. FAILED_PRECONDITION when it cannot be listened on.
  absl::Status listen(std::string& address, const Hand& hand);
  /// From now on, when the server has started. Call once.
  void start();
  /// Takes no more. Those that are open stay the server's. Idempotent.
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
  /// Of each open connection a second descriptor, which hears of its end, and its place. The thread's alone.
  std::map<int, std::shared_ptr<void>> open_;
  int64_t refused_ = 0, told_s_ = 0;
  std::string last_refused_;
};

/// What connections are counted by: "10.0.0.7", "2001:db8:1:2::/64".
std::string machineOf(const sockaddr* address);

}  // namespace tessera::server
