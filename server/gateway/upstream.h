#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gateway/routes.h"

namespace tessera::server::gateway {

/// Identity of a request's caller according to HTTP and TLS, not yet checked. The gate (server/access/gate.h)
/// identifies the caller and its role.
struct WebCaller {
  std::string address;        ///< "10.0.0.7"
  std::string authorization;  ///< the header, unchanged; empty: none
  std::string certificate;    ///< the URI in the client certificate, if an accepted authority signed it
  /// The header Tessera-Project, unchanged: the project that a caller with the OPERATOR role selects; empty: none.
  std::string project;
};

/// Converts gRPC's error, with the Failure in its details.
absl::Status fromGrpc(const grpc::Status& status);

/// Calls of the services in this process, through the same gate and checks as all others. Thread-safe.
class Upstream {
 public:
  explicit Upstream(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)), stub_(channel_) {}

  /// Context of a call on behalf of the caller, with a deadline.
  static void prepare(grpc::ClientContext& context, const WebCaller& caller, std::chrono::milliseconds patience);

  absl::Status call(std::string_view method, const WebCaller& caller, const google::protobuf::Message& request,
                    google::protobuf::Message& response);

  /// Reads `length` bytes of a blob from `offset`.
  absl::StatusOr<std::string> read(const WebCaller& caller, const std::string& sha256, int64_t offset, int64_t length);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
};

}  // namespace tessera::server::gateway
