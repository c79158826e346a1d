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

/// Metadata of calls that the web gateway makes for its callers. Only the gateway can send them, see `from_gateway`.
inline constexpr char kWebAddress[] = "tessera-web-address";          ///< of the caller's machine, "10.0.0.7"
inline constexpr char kWebCertificate[] = "tessera-web-certificate";  ///< the URI in its certificate, verified

/// Admission policy of a listener.
struct GatePolicy {
  /// Role of callers without a credential; ROLE_UNSPECIFIED: they are rejected.
  v1::Role anonymous_role = v1::ROLE_UNSPECIFIED;
  int max_calls = 4096;         ///< in progress, in total
  int max_calls_of_one = 1024;  ///< in progress, per caller (credential or host)
  /// Limit of the memory of all requests that wait for their answers: the store may be slow and callers many.
  int64_t max_held_bytes = int64_t{256} << 20;
  /// All calls come from the web gateway, over a channel in this process, with its caller's identity in the metadata.
  bool from_gateway = false;
};

/// Facts of a call, for the gate and the audit log.
struct CallFacts {
  std::string method;                                  ///< "CreateJob"
  size_t bytes = 0;                                    ///< size of its request
  const google::protobuf::Message* request = nullptr;  ///< if it has arrived; names the object of the call
  /// Of a unary request, which must outlive the result.
  static CallFacts of(const google::protobuf::Message& request) {
    return {methodOf(request), request.ByteSizeLong(), &request};
  }
};

/// An admitted call. It counts as in progress until the ticket is destroyed.
class Ticket {
 public:
  virtual ~Ticket() = default;
  /// Whether the audit log records this call.
  virtual bool audited() const = 0;
  /// Names the object of the call, if its first message did not.
  virtual void concerns(const std::string& resource) = 0;
  /// Records the answer. Call once.
  virtual void answered(const absl::Status& status) = 0;
};

/// Every call passes the gate first: identity, project, right, limits. Thread-safe.
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
  /// Reserves a place for a call of this caller, or returns why there is none.
  absl::StatusOr<std::shared_ptr<Ticket>> take(const Caller& caller, Right right, const CallFacts& call);

  const TokenBook& tokens_;
  Quotas& quotas_;
  AuditLog* const audit_;
  const GatePolicy policy_;
  const std::shared_ptr<Load> load_;  ///< shared, since tickets may outlive the gate while the server stops
};

}  // namespace tessera::server
