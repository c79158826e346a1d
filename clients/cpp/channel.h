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
#include "tessera/v1/signing_service.grpc.pb.h"
#include "tessera/v1/target_service.grpc.pb.h"
#include "tessera/v1/worker_service.grpc.pb.h"

namespace tessera::client {

/// A gRPC status as ours. A server's v1::Failure (in the error details) becomes the status' payload,
/// see proto/messages/failure.h. Requires !status.ok().
absl::Status fromGrpc(const grpc::Status& status);

/// How long a server that has answered before may stay away: a restart that drains takes half of it.
constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(1);

struct CallOptions {
  std::chrono::milliseconds timeout{30'000};  ///< of one try; of all of them while the server has never answered
  int attempts = 4;  ///< tries at a server that has never answered; use 1 for calls that must not repeat
  std::chrono::milliseconds patience = kPatience;  ///< with one that has
};

/// A connection and one stub for each service. Thread-safe.
class Channel {
 public:
  /// `address` is host:port or unix:/path. Connects lazily.
  explicit Channel(const std::string& address);
  /// The same, showing who calls. INVALID_ARGUMENT as openChannel's (proto/channel/identity.h).
  static absl::StatusOr<std::unique_ptr<Channel>> open(const std::string& address, const Identity& identity);

  const std::string& address() const { return address_; }

  /// `ended` is asked when the server does not answer: OK while it may come back, else why it never will, which is
  /// what calls and watches then fail with instead of waiting for it. From any thread.
  void setEnded(std::function<absl::Status()> ended) { ended_ = std::move(ended); }
  /// OK while the server may come back.
  absl::Status ended() const { return ended_ ? ended_() : absl::OkStatus(); }

  /// `away` hears, a second after a server that had answered went away, or three after a call that got no answer, how
  /// long it is waited for. From any thread.
  void setAway(std::function<void(std::chrono::milliseconds)> away);
  /// Whether the server has ever answered here.
  bool answered() const { return answered_; }
  /// Sleeps; ends early once there is a connection where there was none. Nothing else works on one between two calls.
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
  v1::SigningService::Stub& signing() { return *signing_; }

  KnownBlobs& knownBlobs() { return known_blobs_; }

  /// One unary call with a deadline. While the server does not answer it is tried again with growing pauses: a few
  /// times where it never has, for `patience` where it has.
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
  std::unique_ptr<v1::SigningService::Stub> signing_;
  KnownBlobs known_blobs_;
  std::function<absl::Status()> ended_;
  std::function<void(std::chrono::milliseconds)> away_;
  std::unique_ptr<SilenceWatch> silence_;  ///< null: nobody is told
  mutable std::atomic<bool> answered_ = false;

  friend class Patience;
};

/// Whether and when to try again what a server did not answer. Of one operation; single-threaded.
class Patience {
 public:
  explicit Patience(const Channel& channel, const CallOptions& options = {}) : channel_(channel), options_(options) {}

  /// It did: waiting begins anew.
  void answered();
  /// Sleeps until the next try. False: there is none.
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
