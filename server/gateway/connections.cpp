#include "server/gateway/connections.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <exception>
#include <thread>
#include <utility>

namespace tessera::server::gateway {
namespace {

thread_local bool refuse = false;

}  // namespace

bool ConnectionThreads::mustReject() { return refuse; }

void ConnectionThreads::enqueue(std::function<void()> work) {
  bool room = false;
  {
    const std::lock_guard lock(state_->mutex);
    room = state_->running < most_;
    state_->running += room ? 1 : 0;
  }
  const auto leave = [state = state_] {
    const std::lock_guard lock(state->mutex);
    --state->running;
    state->changed.notify_all();
  };
  if (room) {
    try {
      std::thread([work, leave] {
        try {
          work();
        } catch (const std::exception& error) {  // the HTTP library may throw; only this connection ends
          spdlog::error("web connection: {}", error.what());
        }
        leave();
      }).detach();
      return;
    } catch (const std::exception&) {  // no memory, or no more threads on this machine
      leave();
    }
  }
  refuse = true;
  work();
  refuse = false;
}

void ConnectionThreads::shutdown() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->running == 0; });
}

OpenSockets::Entry::Entry(OpenSockets& all, int socket) : all_(all), socket_(socket) {
  const std::lock_guard lock(all_.mutex_);
  all_.sockets_.insert(socket_);
}

OpenSockets::Entry::~Entry() {
  const std::lock_guard lock(all_.mutex_);
  all_.sockets_.erase(socket_);
}

bool OpenSockets::any() const {
  const std::lock_guard lock(mutex_);
  return !sockets_.empty();
}

void OpenSockets::shutDown() {
  const std::lock_guard lock(mutex_);
  for (const int socket : sockets_) {
    ::shutdown(socket, SHUT_RDWR);
  }
}

}  // namespace tessera::server::gateway
