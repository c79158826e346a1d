#include "server/gateway/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/access/concurrency_limiter.h"
#include "server/gateway/answers.h"
#include "server/gateway/connection.h"
#include "server/gateway/connections.h"

namespace tessera::server::gateway {
namespace {

/// Time for answers in progress when the service stops; then their connections are closed.
constexpr std::chrono::milliseconds kLastWords{1000}, kLookAgain{10};

/// The connection that this thread serves.
thread_local Connection* current = nullptr;
/// A request was rejected before its body was read, so the following bytes are no request.
thread_local bool leave = false;

std::string peerOf(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char text[INET6_ADDRSTRLEN] = "unknown";
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    const void* number = address.ss_family == AF_INET
                             ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr)
                             : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr);
    inet_ntop(address.ss_family, number, text, sizeof(text));
  }
  return text;
}

/// Unit of the connection limit; a host can use any address of its IPv6 network.
std::string networkOf(const std::string& peer) {
  in6_addr address{};
  const bool mapped = peer.find('.') != std::string::npos;  // ::ffff:10.0.0.7
  if (mapped || inet_pton(AF_INET6, peer.c_str(), &address) != 1) {
    return peer;
  }
  return {reinterpret_cast<const char*>(&address), 8};
}

/// Compresses with gzip only answers that the client accepts compressed and that compress quickly.
void normalize(httplib::Request& request) {
  const bool gzip = request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
  request.headers.erase("Accept-Encoding");
  if (gzip) {
    request.set_header("Accept-Encoding", "gzip");
  }
  request.ranges.clear();
}

class HttpListener : public Listener, private httplib::Server {
 public:
  HttpListener(HttpService& service, std::shared_ptr<SSL_CTX> tls, const WebLimits& limits)
      : service_(service),
        tls_(std::move(tls)),
        limits_(limits),
        limiter_(limits.max_connections, limits.max_connections_of_one) {
    new_task_queue = [this] { return new ConnectionThreads(limits_.max_connections); };
    // Not SO_REUSEPORT, httplib's default: two servers on one port would share its clients.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_payload_max_length(WebLimits::kMaxBodyBytes);
    set_keep_alive_max_count(WebLimits::kRequestsOfConnection);
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(limits_.idle).count());
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (service_.refuse(request, response)) {
        leave = true;
        response.set_header("Connection", "close");
        return HandlerResponse::Handled;
      }
      if (request.method == "POST") {
        current->allowBody();
        return HandlerResponse::Unhandled;  // the body is read first
      }
      respond(request, response);
      return HandlerResponse::Handled;
    });
    Post(".*", [this](const httplib::Request& request, httplib::Response& response) { respond(request, response); });
    set_post_routing_handler([](const httplib::Request&, httplib::Response& response) { addSafetyHeaders(response); });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty() && !response.content_provider_) {
        const int status = response.status;
        setError(response, absl::InvalidArgumentError(absl::StrCat("this is no request that is taken (", status, ")")));
        response.status = status;
        response.set_header("Connection", "close");
        leave = true;
      }
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      setError(response, absl::InternalError("the web gateway failed; its log may say more"));
      response.set_header("Connection", "close");
      leave = true;  // its body may not have been read
    });
  }

  ~HttpListener() override { end(); }

  absl::Status open(std::string& address, const char* flag) override {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    int port = 0;
    if (colon == std::string::npos || host.empty() || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
        port > 65535) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": ", address, "; accepted: host:port"));
    }
    if (host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    if (port == 0) {
      port = bind_to_any_port(host);
    } else if (!bind_to_port(host, port)) {
      port = -1;
    }
    if (port <= 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot listen on ", address, "; is the address right and the port free?"));
    }
    // httplib's backlog is five; a few browsers exceed it, and on a busy machine the rest is reset.
    (void)::listen(svr_sock_, limits_.max_connections);
    address = absl::StrCat(address.substr(0, colon), ":", port);
    thread_ = std::thread([this, address] {
      if (!listen_after_bind()) {
        spdlog::error("the HTTP service on {} takes no more connections: this machine lacks files or memory", address);
      }
    });
    while (!is_running()) {
      std::this_thread::yield();
    }
    return absl::OkStatus();
  }

  void end() override {
    if (!thread_.joinable()) {
      return;
    }
    stop();
    for (auto left = kLastWords; left.count() > 0 && open_.any(); left -= kLookAgain) {
      std::this_thread::sleep_for(kLookAgain);
    }
    open_.shutDown();
    thread_.join();
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    const std::string peer = peerOf(socket);
    const std::shared_ptr<void> place = ConnectionThreads::mustReject() ? nullptr : limiter_.take(networkOf(peer));
    if (!place) {
      ::close(socket);
      return false;
    }
    Connection connection(socket, peer, tls_, limits_);
    const OpenSockets::Entry entry(open_, socket);  // destroyed before the connection
    current = &connection;
    const auto stopping = [this] { return svr_sock_ == INVALID_SOCKET; };
    if (connection.shakeHands()) {
      for (int left = WebLimits::kRequestsOfConnection; left > 0 && connection.awaitRequest(stopping); --left) {
        bool closed = false;
        leave = false;
        connection.beginRequest();
        if (!process_request(connection, left == 1, closed, &normalize) || closed || leave) {
          break;
        }
      }
    }
    current = nullptr;
    return true;
  }

  void respond(const httplib::Request& request, httplib::Response& response) {
    service_.answer(request,
                    {current->peer(), request.get_header_value("Authorization"), current->certificateUri(),
                     request.get_header_value("Tessera-Project")},
                    response);
  }

  HttpService& service_;
  const std::shared_ptr<SSL_CTX> tls_;
  const WebLimits limits_;
  ConcurrencyLimiter limiter_;
  OpenSockets open_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Listener> makeListener(HttpService& service, std::shared_ptr<SSL_CTX> tls, const WebLimits& limits) {
  return std::make_unique<HttpListener>(service, std::move(tls), limits);
}

}  // namespace tessera::server::gateway
