#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/known_blobs.h"
#include "clients/cpp/silence_watch.h"
#include "proto/channel/identity.h"
#include "tessera/v1/admin_service.grpc.pb.h"
#include "tessera/v1/artifact.grpc.pb.h"
#include "tessera/v1/artifact_versions.grpc.pb.h"
#include "tessera/v1/blob_service.grpc.pb.h"
#include "tessera/v1/execution_service.grpc.pb.h"
#include "tessera/v1/job.grpc.pb.h"
#include "tessera/v1/operator_service.grpc.pb.h"
#include "tessera/v1/record.grpc.pb.h"
#include "tessera/v1/server_service.grpc.pb.h"
#include "tessera/v1/signing_service.grpc.pb.h"
#include "tessera/v1/target_service.grpc.pb.h"
#include "tessera/v1/worker_service.grpc.pb.h"

namespace tessera::client {

/// Converts a gRPC status. A server's v1::Failure (in the error details) becomes the payload of the result, see
/// proto/messages/failure.h. Requires !status.ok().
absl::Status fromGrpc(const grpc::Status& status);

/// How long clients wait for a server that answered before. A restart with a drain takes about half of it.
constexpr std::chrono::milliseconds kReconnectTimeout = std::chrono::minutes(1);

struct CallOptions {
  std::chrono::milliseconds timeout{30'000};  ///< of one attempt; of all attempts if the server has never answered
  int attempts = 4;  ///< attempts with a server that has never answered; 1 for calls that must not repeat
  std::chrono::milliseconds patience = kReconnectTimeout;  ///< total wait for a server that answered before
};

/// A connection and one stub for each gRPC service. Thread-safe.
class Channel {
 public:
  /// `address` is host:port or unix:/path. The connection is made by the first call.
  explicit Channel(const std::string& address);
  /// Like the constructor, with an identity. INVALID_ARGUMENT for the reasons of openChannel
  /// (proto/channel/identity.h).
  static absl::StatusOr<std::unique_ptr<Channel>> open(const std::string& address, const Identity& identity);

  const std::string& address() const { return address_; }

  /// Sets a callback for servers whose process can be observed (--local). When the server does not answer, `ended`
  /// returns OK if it may come back, otherwise an error, with which calls and watches fail at once. Called from any
  /// thread.
  void setServerEndedCheck(std::function<absl::Status()> ended) { ended_ = std::move(ended); }
  /// OK if the server may come back.
  absl::Status ended() const { return ended_ ? ended_() : absl::OkStatus(); }

  /// Sets a callback that reports how long the client will wait for a server: one second after a server that answered
  /// before became unreachable, or three seconds into a call without an answer. Called from any thread.
  void setUnreachableCallback(std::function<void(std::chrono::milliseconds)> away);
  /// Whether the server has ever answered on this channel.
  bool answered() const { return answered_; }
  /// Sleeps for `length`, or until a missing connection is established. gRPC establishes connections only during calls.
  void pause(std::chrono::milliseconds length) const;

  /// Waits until the server answers its health check. UNAVAILABLE names the address.
  absl::Status waitReady(std::chrono::milliseconds timeout);

  v1::JobService::Stub& jobs() { return *jobs_; }
  v1::BlobService::Stub& blobs() { return *blobs_; }
  v1::ArtifactService::Stub& artifacts() { return *artifacts_; }
  v1::ArtifactVersionService::Stub& versions() { return *versions_; }
  v1::ExecutionService::Stub& execution() { return *execution_; }
  v1::TargetService::Stub& targets() { return *targets_; }
  v1::RecordService::Stub& records() { return *records_; }
  v1::FleetService::Stub& fleet() { return *fleet_; }
  v1::OperatorService::Stub& operators() { return *operators_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  v1::ServerService::Stub& servers() { return *servers_; }
  v1::SigningService::Stub& signing() { return *signing_; }

  KnownBlobs& knownBlobs() { return known_blobs_; }

  /// Makes one unary call with a deadline. Unanswered calls are repeated with growing pauses: `attempts` times if the
  /// server has never answered, for `patience` if it has.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, const CallOptions& options = {}) {
    Response response;
    absl::Status status = retry(options, [&](grpc::ClientContext& context) {
      response.Clear();
      return (stub.*method)(&context, request, &response);
    });
    if (!status.ok()) return status;
    return response;
  }

 private:
  Channel(std::string address, std::shared_ptr<grpc::Channel> channel);
  absl::Status retry(const CallOptions& options,
                     const std::function<grpc::Status(grpc::ClientContext&)>& attempt) const;

  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::BlobService::Stub> blobs_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
  std::unique_ptr<v1::ArtifactVersionService::Stub> versions_;
  std::unique_ptr<v1::ExecutionService::Stub> execution_;
  std::unique_ptr<v1::TargetService::Stub> targets_;
  std::unique_ptr<v1::RecordService::Stub> records_;
  std::unique_ptr<v1::FleetService::Stub> fleet_;
  std::unique_ptr<v1::OperatorService::Stub> operators_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  std::unique_ptr<v1::ServerService::Stub> servers_;
  std::unique_ptr<v1::SigningService::Stub> signing_;
  KnownBlobs known_blobs_;
  std::function<absl::Status()> ended_;
  std::function<void(std::chrono::milliseconds)> away_;
  std::unique_ptr<SlowCallMonitor> silence_;  ///< null: slow calls are not reported
  mutable std::atomic<bool> answered_ = false;

  friend class RetryState;
};

/// Decides whether and when to repeat an unanswered call. For one operation; not thread-safe.
class RetryState {
 public:
  explicit RetryState(const Channel& channel, const CallOptions& options = {}) : channel_(channel), options_(options) {}

  /// The server answered: the wait restarts.
  void answered();
  /// Sleeps until the next attempt. False: give up.
  bool wait();

 private:
  const Channel& channel_;
  const CallOptions options_;
  std::optional<std::chrono::steady_clock::time_point> since_;
  std::chrono::milliseconds pause_{};
  int tries_ = 0;
  bool told_ = false;
};

}  // namespace tessera::client
