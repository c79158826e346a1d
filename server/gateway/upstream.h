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

/// Who a request came from, as far as HTTP and TLS say; what comes of it is the gate's to decide.
struct WebCaller {
  std::string address;        ///< "10.0.0.7"
  std::string authorization;  ///< the header, as it is; empty: none
  std::string certificate;    ///< the URI in the certificate that was shown, where an authority vouches for it
  std::string project;        ///< the header Tessera-Project, as it is: what an operator speaks for; empty: none
};

/// gRPC's error with the Failure that its details hold.
absl::Status fromGrpc(const grpc::Status& status);

/// Calls of the services in this process, which see who called as they do elsewhere: the same gate, the same checks.
/// Thread-safe.
class Upstream {
 public:
  explicit Upstream(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)), stub_(channel_) {}

  /// The context of a call for somebody, with a deadline.
  static void prepare(grpc::ClientContext& context, const WebCaller& caller, std::chrono::milliseconds patience);

  absl::Status call(std::string_view method, const WebCaller& caller, const google::protobuf::Message& request,
                    google::protobuf::Message& response);

  /// `length` bytes of a blob from `offset` on.
  absl::StatusOr<std::string> read(const WebCaller& caller, const std::string& sha256, int64_t offset, int64_t length);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
};

}  // namespace tessera::server::gateway
