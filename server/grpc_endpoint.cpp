#include "server/grpc_endpoint.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/metrics/rpc_meter.h"
#include "server/services/admin_service.h"
#include "server/services/artifact_service.h"
#include "server/services/blob_service.h"
#include "server/services/execution_service.h"
#include "server/services/fleet_service.h"
#include "server/services/job_service.h"
#include "server/services/operator_service.h"
#include "server/services/record_service.h"
#include "server/services/server_service.h"
#include "server/services/signing_service.h"
#include "server/services/target_service.h"
#include "server/services/versions_service.h"
#include "server/services/worker_service.h"

namespace tessera::server {
namespace {

/// Memory that gRPC may use for all calls together, since a message is read whole before the gate sees its call. Beyond
/// it gRPC ends calls with RESOURCE_EXHAUSTED. Twice the data that the admitted streams can have sent ahead, one chunk
/// each.
constexpr size_t kTransportMemory = size_t{256} << 20;
/// Concurrent calls per connection, which limits a peer that is not identified yet.
constexpr int kStreamsPerConnection = 1024;

}  // namespace

struct GrpcEndpoint::Services {
  Services(const Backend& backend, Gate& gate)
      : intake(backend.clock, backend.store, backend.blobs, backend.quotas, backend.limits),
        jobs(backend.scheduler, backend.store, backend.targets, gate, backend.tokens, backend.control, backend.limits,
             intake),
        blobs(backend.clock, backend.store, backend.blobs, gate, backend.quotas, backend.blob_io, backend.limits,
              intake),
        artifacts(backend.store, gate, backend.control),
        versions(jobs, backend.scheduler, backend.store, gate, backend.control),
        execution(backend.scheduler, backend.store, gate, backend.control, backend.limits),
        targets(backend.targets, gate, backend.control),
        records(backend.store, gate, backend.control),
        operators(backend.operators, gate, backend.control),
        signing(backend.signing_key, backend.store, gate, backend.control),
        servers(backend.registry, gate, backend.control),
        workers(backend.scheduler, backend.blobs, backend.operators, gate, backend.control, backend.limits),
        fleet(backend.scheduler, backend.store, gate, backend.control),
        admin(backend.tokens, backend.quotas, backend.collector, backend.policy, backend.store, gate, backend.blob_io) {
  }

  BlobIntake intake;
  JobService jobs;
  BlobService blobs;
  ArtifactService artifacts;
  VersionsService versions;
  ExecutionService execution;
  TargetService targets;
  RecordService records;
  OperatorService operators;
  SigningService signing;
  ServerService servers;
  WorkerService workers;
  FleetService fleet;
  AdminService admin;
};

GrpcEndpoint::GrpcEndpoint(const Backend& backend, For whom, GatePolicy policy)
    : backend_(backend),
      whom_(whom),
      gate_(backend.tokens, backend.quotas, backend.audit, policy),
      services_(std::make_unique<Services>(backend_, gate_)),
      acceptor_(backend.connections) {}

GrpcEndpoint::~GrpcEndpoint() { stop(0); }

absl::Status GrpcEndpoint::open(std::vector<Address>& addresses) {
  grpc::EnableDefaultHealthCheckService(true);
  static const bool reflection = [] {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)reflection;
  grpc::ServerBuilder builder;
  std::vector<int> ports(addresses.size(), 1);
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (absl::StartsWith(addresses[i].listen, "unix:")) {
      builder.AddListeningPort(addresses[i].listen, addresses[i].credentials, &ports[i]);
      continue;
    }
    const Acceptor::Hand hand = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, addresses[i].credentials);
    TESSERA_RETURN_IF_ERROR(acceptor_.listen(addresses[i].listen, hand));
  }
  builder.SetMaxReceiveMessageSize(backend_.limits.max_message_bytes);
  builder.SetMaxSendMessageSize(-1);
  // Compressed messages are rejected: half a megabyte can expand to half a gigabyte.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  for (const grpc_compression_algorithm packing : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(packing, false);
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  // A worker on a dead host is noticed by its lease; idle connections of clients stay open.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.SetResourceQuota(grpc::ResourceQuota("tesserad").Resize(kTransportMemory));
  std::vector<std::pair<grpc::Service*, std::string>> services = {
      {&services_->jobs, v1::JobService::service_full_name()},
      {&services_->blobs, v1::BlobService::service_full_name()},
      {&services_->artifacts, v1::ArtifactService::service_full_name()},
      {&services_->versions, v1::ArtifactVersionService::service_full_name()},
      {&services_->execution, v1::ExecutionService::service_full_name()},
      {&services_->targets, v1::TargetService::service_full_name()},
      {&services_->records, v1::RecordService::service_full_name()},
      {&services_->operators, v1::OperatorService::service_full_name()},
      {&services_->signing, v1::SigningService::service_full_name()},
      {&services_->servers, v1::ServerService::service_full_name()},
      {&services_->fleet, v1::FleetService::service_full_name()},
      {&services_->admin, v1::AdminService::service_full_name()}};
  if (whom_ == For::kWorkersAndOperator) {
    services.emplace_back(&services_->workers, v1::WorkerService::service_full_name());
  }
  std::vector<std::string> names;
  for (const auto& [service, name] : services) {
    builder.RegisterService(service);
    names.push_back(name);
  }
  if (backend_.metrics != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> meters;
    meters.push_back(std::make_unique<RpcMeter>(*backend_.metrics, names));
    builder.experimental().SetInterceptorCreators(std::move(meters));
  }
  server_ = builder.BuildAndStart();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (server_ == nullptr || ports[i] == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot listen on ", addresses[i].listen, "; is the address right and the port free?"));
    }
  }
  acceptor_.start();
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> GrpcEndpoint::channel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void GrpcEndpoint::leave() {
  if (server_ != nullptr) {
    server_->GetHealthCheckService()->SetServingStatus(false);
  }
}

void GrpcEndpoint::stop(int grace_ms) {
  acceptor_.stop();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
    server_->Wait();
    server_.reset();
  }
}

}  // namespace tessera::server
