#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/gateway/web_limits.h"
#include "server/tls.h"

namespace tessera::server::gateway {

/// TLS settings of a listener, loaded.
absl::StatusOr<std::shared_ptr<SSL_CTX>> tlsContext(const Tls& tls);

/// One connection, plain or TLS, with limits on everything: each request has a limit of time and size, and a peer that
/// reads its answer too slowly is disconnected. Owns the socket. Used by one thread.
class Connection : public httplib::Stream {
 public:
  /// `tls`: nullptr for a plain connection.
  Connection(int socket, std::string peer, const std::shared_ptr<SSL_CTX>& tls, const WebLimits& limits);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// TLS handshake; true without TLS.
  bool shakeHands();
  /// Waits for the first byte of the next request; checks `stopping` regularly.
  bool awaitRequest(const std::function<bool()>& stopping);
  /// Starts the limits of one request: the time until its last byte, and kMaxHeadBytes bytes.
  void beginRequest();
  /// Extends the limit of the current request by kMaxBodyBytes, once its head has been accepted.
  void allowBody() { bytes_left_ += WebLimits::kMaxBodyBytes; }
  /// The URI in the peer's certificate, "tessera://client/ada"; empty: none.
  std::string certificateUri() const;
  const std::string& peer() const { return peer_; }

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  bool ready(short events, Time until) const;
  /// Waits for the event that TLS needs after `outcome`; false: the connection has ended.
  bool tlsMayGoOn(int outcome, Time until) const;
  ssize_t receive(char* data, size_t size);

  const int socket_;
  const std::string peer_;
  const std::shared_ptr<SSL_CTX> context_;
  const WebLimits& limits_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_{nullptr, &SSL_free};
  Time request_end_;
  size_t bytes_left_ = 0;                         ///< of the current request
  int64_t sent_ = 0;                              ///< bytes of the current answer
  std::chrono::steady_clock::duration waited_{};  ///< for the peer to read the answer
  std::string buffer_;
  size_t next_ = 0;  ///< first unread byte of the buffer
};

}  // namespace tessera::server::gateway
