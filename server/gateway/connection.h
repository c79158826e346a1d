#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/gateway/web_limits.h"
#include "server/server.h"

namespace tessera::server::gateway {

/// What a listener shows and asks for, ready for connections.
absl::StatusOr<std::shared_ptr<SSL_CTX>> tlsContext(const Tls& tls);

/// One connection, in the clear or TLS, with an end to everything: a request comes within a time and a size, whoever
/// takes an answer too slowly is left. Owns the socket. One thread.
class Connection : public httplib::Stream {
 public:
  /// `tls`: nullptr in the clear.
  Connection(int socket, std::string peer, const std::shared_ptr<SSL_CTX>& tls, const WebLimits& limits);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// TLS's greetings; true without TLS.
  bool shakeHands();
  /// Waits for the first byte of the next request; looks at `stopping` now and then.
  bool awaitRequest(const std::function<bool()>& stopping);
  /// From here on time and bytes of one request are counted: those of its head until it may have a body.
  void beginRequest();
  void allowBody() { bytes_left_ += WebLimits::kMaxBodyBytes; }
  /// The URI in the certificate that was shown, "tessera://client/ada"; empty: none.
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
  /// What TLS waits for after `outcome`; false: the connection is over.
  bool tlsMayGoOn(int outcome, Time until) const;
  ssize_t receive(char* data, size_t size);

  const int socket_;
  const std::string peer_;
  const std::shared_ptr<SSL_CTX> context_;
  const WebLimits& limits_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_{nullptr, &SSL_free};
  Time request_end_;
  size_t bytes_left_ = 0;                         ///< of the request
  int64_t sent_ = 0;                              ///< bytes of the answer
  std::chrono::steady_clock::duration waited_{};  ///< for the peer to take them
  std::string buffer_;
  size_t next_ = 0;  ///< first byte of the buffer that is not taken
};

}  // namespace tessera::server::gateway
