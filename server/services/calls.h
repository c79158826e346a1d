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

/// Where a call's body runs: on the executor, or at once on gRPC's own thread, where it must neither wait nor take
/// long.
enum class Run { kOnExecutor, kHere };

/// Answers a unary call with what `body` says, run with the caller and with what to call with the
/// answer: once, on any thread. The request and the response live until then. A call that the gate refuses, or that was
/// cancelled while it waited for the executor, has no effect. `made`: an answer that names what the call has made, for
/// the audit log.
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
  if (where == Run::kHere) {
    run();
  } else {
    executor.post(std::move(run));
  }
  return reactor;
}

/// The same with what `body` returns.
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

/// A call that ends with an error at once; `Reactor` is gRPC's of its kind.
template <typename Reactor>
class Refusal : public Reactor {
 public:
  explicit Refusal(const absl::Status& status) { this->Finish(toGrpc(status)); }
  void OnDone() override { delete this; }
};

/// Runs `advance` on the executor after every wake(), never twice at a time; wakes during a run cause one
/// more run. So a call's state needs no lock: everything that happens (a write finished, the job changed,
/// the client left) is a wake, and advance() looks at what is new.
///
/// A call is owned by itself from start() until gRPC's OnDone; wakeups hold it weakly or share it.
class WakeableCall : public std::enable_shared_from_this<WakeableCall> {
 public:
  explicit WakeableCall(Executor& executor) : executor_(executor) {}
  virtual ~WakeableCall() = default;

  void wake() {
    if (wakes_.fetch_add(1) == 0) {
      executor_.post([self = shared_from_this()] { self->drain(); });
    }
  }

  /// A callback that wakes the call as long as the call lives.
  std::function<void()> waker() {
    return [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->wake();
      }
    };
  }

 protected:
  virtual void advance() = 0;
  /// `ticket`: of the gate, given back with the call.
  void keepAlive(std::shared_ptr<Ticket> ticket) {
    ticket_ = std::move(ticket);
    self_ = shared_from_this();
  }
  void release() { self_.reset(); }
  Ticket& ticket() { return *ticket_; }
  /// The call's last word.
  grpc::Status finalStatus(const absl::Status& status) {
    ticket_->answered(status);
    return toGrpc(status);
  }

 private:
  void drain() {
    int seen = wakes_.load();
    do {
      advance();
      // Another wake may have come in: only the count seen before the run is served by it.
    } while (wakes_.fetch_sub(seen) != seen && (seen = wakes_.load()) > 0);
  }

  Executor& executor_;
  std::atomic<int> wakes_ = 0;
  std::shared_ptr<Ticket> ticket_;
  std::shared_ptr<WakeableCall> self_;
};

}  // namespace tessera::server
