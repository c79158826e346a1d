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

bool ConnectionThreads::refusing() { return refuse; }

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
        } catch (const std::exception& error) {  // what HTTP is read with may throw; it costs this connection
          spdlog::error("web connection: {}", error.what());
        }
        leave();
      }).detach();
      return;
    } catch (const std::exception&) {  // no more threads on this machine, or no memory for one
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

std::shared_ptr<void> Places::take(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->of_one.find(name);
  if (state_->all >= most_ || (known != state_->of_one.end() && known->second >= most_of_one_)) {
    return nullptr;
  }
  ++state_->all;
  ++state_->of_one[name];
  return {state_.get(), [state = state_, name](void*) {
            const std::lock_guard ending(state->mutex);
            --state->all;
            if (--state->of_one[name] == 0) {
              state->of_one.erase(name);
            }
          }};
}

}  // namespace tessera::server::gateway
