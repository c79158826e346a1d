#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/executor.h"
#include "server/services/grpc_status.h"

namespace tessera::server {

/// Answers a unary call with what `body` returns, run on the executor. The request and the response live
/// until then.
template <typename Body>
grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, Executor& executor, Body body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  executor.post([reactor, body = std::move(body)]() mutable { reactor->Finish(toGrpc(body())); });
  return reactor;
}

/// Whose share a request without a client's name counts on: the machine it comes from, "ipv4:10.0.0.7" or "unix:".
inline std::string peerOf(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  return peer.rfind("unix:", 0) == 0 ? "unix:" : peer.substr(0, peer.rfind(':'));
}

/// Runs `advance` on the executor after every poke(), never twice at a time; pokes during a run cause one
/// more run. So a call's state needs no lock: everything that happens (a write finished, the job changed,
/// the client left) is a poke, and advance() looks at what is new.
///
/// A call is owned by itself from start() until gRPC's OnDone; wakeups hold it weakly or share it.
class PokedCall : public std::enable_shared_from_this<PokedCall> {
 public:
  explicit PokedCall(Executor& executor) : executor_(executor) {}
  virtual ~PokedCall() = default;

  void poke() {
    if (pokes_.fetch_add(1) == 0) {
      executor_.post([self = shared_from_this()] { self->drain(); });
    }
  }

  /// A callback that pokes as long as the call lives.
  std::function<void()> poker() {
    return [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->poke();
      }
    };
  }

 protected:
  virtual void advance() = 0;
  void keepAlive() { self_ = shared_from_this(); }
  void release() { self_.reset(); }

 private:
  void drain() {
    int seen = pokes_.load();
    do {
      advance();
      // Another poke may have come in: only the count seen before the run is served by it.
    } while (pokes_.fetch_sub(seen) != seen && (seen = pokes_.load()) > 0);
  }

  Executor& executor_;
  std::atomic<int> pokes_ = 0;
  std::shared_ptr<PokedCall> self_;
};

}  // namespace tessera::server
