#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "server/access/gate.h"
#include "server/executor.h"
#include "server/services/grpc_status.h"

namespace tessera::server {

/// The thread that runs the body of a call: one of the executor's, or gRPC's own thread. On gRPC's thread the body must
/// be short and must not block.
enum class Run { kOnExecutor, kOnCallingThread };

/// Answers a unary call. `body` is called with the caller and with a function that it must call with the status, once,
/// on any thread. Request and response live until then. A call that the gate rejects, or that was cancelled while it
/// waited for the executor, has no effect. `made`: the response, if it names a created object, for the audit log.
template <typename Request, typename Body>
grpc::ServerUnaryReactor* answerLater(grpc::CallbackServerContext* context, Gate& gate, Right right, Executor& executor,
                                      const Request& request, Body body,
                                      const google::protobuf::Message* made = nullptr, Run where = Run::kOnExecutor) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto admission = gate.admit(*context, right, CallFacts::of(request));
  if (!admission.ok()) {
    reactor->Finish(toGrpc(admission.status()));
    return reactor;
  }
  auto run = [context, reactor, made, admission = *std::move(admission), body = std::move(body)]() mutable {
    const auto finish = [reactor, made, ticket = admission.ticket](const absl::Status& status) {
      if (made != nullptr && ticket->audited()) {
        ticket->concerns(resourceOf(*made));
      }
      ticket->answered(status);
      reactor->Finish(toGrpc(status));
    };
    if (context->IsCancelled()) {
      finish(absl::CancelledError("the client left"));
    } else {
      body(admission.caller, finish);
    }
  };
  if (where == Run::kOnCallingThread) {
    run();
  } else {
    executor.post(std::move(run));
  }
  return reactor;
}

/// Likewise, with the status that `body` returns.
template <typename Request, typename Body>
grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, Gate& gate, Right right, Executor& executor,
                                 const Request& request, Body body, const google::protobuf::Message* made = nullptr) {
  return answerLater(
      context, gate, right, executor, request,
      [body = std::move(body)](const Caller& caller, const auto& finish) mutable {
        if constexpr (std::is_invocable_v<Body, const Caller&>) {
          finish(body(caller));
        } else {
          finish(body());
        }
      },
      made);
}

/// A call that ends at once with an error. `Reactor`: gRPC's class of this kind of call.
template <typename Reactor>
class Refusal : public Reactor {
 public:
  explicit Refusal(const absl::Status& status) { this->Finish(toGrpc(status)); }
  void OnDone() override { delete this; }
};

/// A call that waits for events. Runs `advance` on the executor after each wake(), never twice at a time; a wake()
/// during a run causes one more run. The state of a call therefore needs no lock: every event (a write finished, the
/// job changed, the client disconnected) is a wake(), and advance() looks for changes.
///
/// A call owns itself from start() until gRPC's OnDone. Callbacks of the notifier refer to it weakly or share it.
class WakeableCall : public std::enable_shared_from_this<WakeableCall> {
 public:
  explicit WakeableCall(Executor& executor) : executor_(executor) {}
  virtual ~WakeableCall() = default;

  void wake() {
    if (wakes_.fetch_add(1) == 0) {
      executor_.post([self = shared_from_this()] { self->drain(); });
    }
  }

  /// A callback that wakes the call if it still lives.
  std::function<void()> waker() {
    return [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->wake();
      }
    };
  }

 protected:
  virtual void advance() = 0;
  /// `ticket`: from the gate; released with the call.
  void keepAlive(std::shared_ptr<Ticket> ticket) {
    ticket_ = std::move(ticket);
    self_ = shared_from_this();
  }
  void release() { self_.reset(); }
  Ticket& ticket() { return *ticket_; }
  /// The final status of the call, after recording it.
  grpc::Status finalStatus(const absl::Status& status) {
    ticket_->answered(status);
    return toGrpc(status);
  }

 private:
  void drain() {
    int seen = wakes_.load();
    do {
      advance();
      // A wake() that came during the run is not among those seen, and causes another run.
    } while (wakes_.fetch_sub(seen) != seen && (seen = wakes_.load()) > 0);
  }

  Executor& executor_;
  std::atomic<int> wakes_ = 0;
  std::shared_ptr<Ticket> ticket_;
  std::shared_ptr<WakeableCall> self_;
};

}  // namespace tessera::server
