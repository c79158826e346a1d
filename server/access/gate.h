#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/access/access.h"
#include "server/access/audit_log.h"
#include "server/access/quotas.h"
#include "server/access/token_book.h"

namespace tessera::server {

/// Metadata of calls that the web gateway makes for others, and which nobody else can make: see `behind_web`.
inline constexpr char kWebAddress[] = "tessera-web-address";          ///< of the caller's machine, "10.0.0.7"
inline constexpr char kWebCertificate[] = "tessera-web-certificate";  ///< the URI in its certificate, verified

/// What a listener lets in.
struct GatePolicy {
  /// The role of those who show no credential; ROLE_UNSPECIFIED: they are refused.
  v1::Role anonymous_role = v1::ROLE_UNSPECIFIED;
  int max_calls = 4096;         ///< in progress, of all together ...
  int max_calls_of_one = 1024;  ///< ... and of one caller (a credential, or a machine)
  /// What requests may hold while they wait for their answer, all together: the store may be slow and senders many.
  int64_t max_held_bytes = int64_t{256} << 20;
  /// Calls come over a channel within this process, from the web gateway alone, which says whom it speaks for.
  bool behind_web = false;
};

/// What a call is, for the gate and the audit log.
struct CallFacts {
  std::string method;                                  ///< "CreateJob"
  size_t bytes = 0;                                    ///< what its request holds
  const google::protobuf::Message* request = nullptr;  ///< where it has come: says what the call is about
  /// Of a request of one message, which outlives this.
  static CallFacts of(const google::protobuf::Message& request) {
    return {methodOf(request), request.ByteSizeLong(), &request};
  }
};

/// A call that was let in; it counts until this goes.
class Ticket {
 public:
  virtual ~Ticket() = default;
  /// Whether its answer is told to the audit log.
  virtual bool audited() const = 0;
  /// What the call is about, where its first message did not say.
  virtual void concerns(const std::string& resource) = 0;
  /// How it was answered: once, for the audit log.
  virtual void answered(const absl::Status& status) = 0;
};

/// Every call passes here first: who is it, for which project, may they, is there room. Thread-safe.
class Gate {
 public:
  /// `audit` may be null.
  Gate(const TokenBook& tokens, Quotas& quotas, AuditLog* audit, GatePolicy policy)
      : tokens_(tokens), quotas_(quotas), audit_(audit), policy_(policy), load_(std::make_shared<Load>()) {}

  struct Admission {
    Caller caller;
    std::shared_ptr<Ticket> ticket;
  };

  /// UNAUTHENTICATED, PERMISSION_DENIED or RESOURCE_EXHAUSTED.
  absl::StatusOr<Admission> admit(const grpc::CallbackServerContext& context, Right right, const CallFacts& call);

 private:
  struct Load {
    std::mutex mutex;
    int calls = 0;
    int64_t bytes = 0;
    std::map<std::string, int> of_one;
  };
  class Place;
  absl::StatusOr<Caller> identify(const grpc::CallbackServerContext& context) const;
  /// The place of a call of this caller among those in progress, or why there is none.
  absl::StatusOr<std::shared_ptr<Ticket>> take(const Caller& caller, Right right, const CallFacts& call);

  const TokenBook& tokens_;
  Quotas& quotas_;
  AuditLog* const audit_;
  const GatePolicy policy_;
  const std::shared_ptr<Load> load_;  ///< tickets outlive the gate when the server stops
};

}  // namespace tessera::server
