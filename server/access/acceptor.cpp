#include "server/access/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

constexpr int64_t kTellEverySeconds = 10;

absl::Status cannotListen(const std::string& address, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", address, ": ", why, "; is the address right and the port free?"));
}

/// Opens a listening socket; -errno on failure.
int listenOn(const addrinfo& at, uint16_t port) {
  sockaddr_storage name{};
  std::memcpy(&name, at.ai_addr, at.ai_addrlen);
  if (at.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&name)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&name)->sin_port = htons(port);
  }
  const int made = socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) {
    return -errno;
  }
  const int on = 1, off = 0;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited by accepted sockets
  if (at.ai_family == AF_INET6) {
    setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (bind(made, reinterpret_cast<const sockaddr*>(&name), at.ai_addrlen) != 0 || ::listen(made, SOMAXCONN) != 0) {
    const int error = errno;
    close(made);
    return -error;
  }
  return made;
}

uint16_t portOf(int socket) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    return 0;
  }
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

void watch(int poll, int descriptor, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

std::string machineOf(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
    return text.data();
  }
  if (address->sa_family != AF_INET6) {
    return "?";
  }
  in6_addr machine = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&machine)) {
    inet_ntop(AF_INET, &machine.s6_addr[12], text.data(), text.size());
    return text.data();
  }
  std::fill(machine.s6_addr + 8, machine.s6_addr + 16, 0);
  inet_ntop(AF_INET6, &machine, text.data(), text.size());
  return absl::StrCat(text.data(), "/64");
}

Acceptor::~Acceptor() { stop(); }

absl::Status Acceptor::listen(std::string& address, const Hand& hand) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return cannotListen(address, "it is not host:port");
  }
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0) {
    return cannotListen(address, gai_strerror(error));
  }
  const absl::Cleanup free = [&] { freeaddrinfo(found); };
  uint16_t chosen = 0;
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const auto asked = ntohs(at->ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(at->ai_addr)->sin6_port
                                                       : reinterpret_cast<sockaddr_in*>(at->ai_addr)->sin_port);
    const int socket = listenOn(*at, chosen != 0 ? chosen : asked);
    if (socket < 0) {
      error = -socket;
      if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {
        continue;  // a name may have addresses of families that this machine lacks
      }
      return cannotListen(address, std::strerror(error));
    }
    chosen = portOf(socket);
    listeners_.push_back({hand, socket});
  }
  if (chosen == 0) {
    return cannotListen(address, std::strerror(error));
  }
  address = absl::StrCat(address.substr(0, colon), ":", chosen);
  return absl::OkStatus();
}

void Acceptor::start() {
  poll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  watch(poll_, wake_, EPOLLIN);
  for (const Listener& listener : listeners_) {
    watch(poll_, listener.socket, EPOLLIN);
  }
  thread_ = std::thread([this] { loop(); });
}

void Acceptor::stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
    thread_.join();
  }
  for (const auto& [descriptor, place] : open_) {
    close(descriptor);
  }
  open_.clear();
  for (const Listener& listener : listeners_) {
    close(listener.socket);
  }
  listeners_.clear();
  for (int* descriptor : {&poll_, &wake_}) {
    if (*descriptor >= 0) {
      close(std::exchange(*descriptor, -1));
    }
  }
}

void Acceptor::loop() {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = epoll_wait(poll_, events.data(), events.size(), refused_ > 0 ? 1000 : -1);
    for (int i = 0; i < count; ++i) {
      const int descriptor = events[i].data.fd;
      if (descriptor == wake_) {
        return;
      }
      const auto listener = std::find_if(listeners_.begin(), listeners_.end(),
                                         [&](const Listener& each) { return each.socket == descriptor; });
      if (listener != listeners_.end()) {
        takeAll(*listener);
      } else if (open_.erase(descriptor) > 0) {  // both sides have closed it
        // gRPC may keep the socket a while longer; if it stayed in the set, its end would be reported again under a
        // descriptor that is reused.
        epoll_ctl(poll_, EPOLL_CTL_DEL, descriptor, nullptr);
        close(descriptor);
      }
    }
    tellOfRefusals();
  }
}

void Acceptor::takeAll(const Listener& listener) {
  constexpr int kAtOnce = 256;  // per round, so that closed connections give their places back in between
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const int socket =
        accept4(listener.socket, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      take(listener, socket, machineOf(reinterpret_cast<const sockaddr*>(&from)));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      spdlog::error("no connection can be taken: {}", std::strerror(errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (errno == EINTR || errno == ECONNABORTED) {
      continue;
    }
    return;
  }
}

void Acceptor::take(const Listener& listener, int socket, const std::string& machine) {
  std::shared_ptr<void> place = limiter_->take(machine);
  const int second = place ? fcntl(socket, F_DUPFD_CLOEXEC, 0) : -1;
  if (second < 0) {
    // Close with a reset: no state remains here, and the caller learns of it at once.
    const linger now{1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(socket);
    ++refused_;
    last_refused_ = machine;
    return;
  }
  open_.emplace(second, std::move(place));
  watch(poll_, second, 0);  // EPOLLHUP only: gRPC shuts a socket down before it closes it
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener.socket;
  connection.fd = socket;
  listener.hand->HandleNewConnection(&connection);
}

void Acceptor::tellOfRefusals() {
  const int64_t now_s = time(nullptr);
  if (refused_ == 0 || now_s - told_s_ < kTellEverySeconds) {
    return;
  }
  spdlog::warn(
      "{} connections were refused, the last one from {}: as many are open as may be (--max-connections, "
      "--max-connections-of-one)",
      refused_, last_refused_);
  refused_ = 0;
  told_s_ = now_s;
}

}  // namespace tessera::server
