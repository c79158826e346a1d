#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/version/version.h"
#include "server/executor.h"
#include "server/operator_catalog.h"
#include "server/services/artifact_service.h"
#include "server/services/blob_service.h"
#include "server/services/execution_service.h"
#include "server/services/fleet_service.h"
#include "server/services/job_service.h"
#include "server/services/operator_service.h"
#include "server/services/record_service.h"
#include "server/services/target_service.h"
#include "server/services/worker_service.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

constexpr auto kSweepInterval = std::chrono::milliseconds(200);
/// What gRPC may hold in its buffers for all calls together.
constexpr size_t kTransportMemory = size_t{512} << 20;

Rules completed(Rules rules) {
  if (rules.compiler_version.empty()) {
    rules.compiler_version = compilerVersion();
  }
  return rules;
}

class GrpcServer : public Server {
 public:
  GrpcServer(storage::Store& store, storage::BlobStore& blobs, const ServerOptions& options)
      : store_(store),
        options_(options),
        control_(options.control_threads),
        blob_io_(options.blob_threads),
        targets_(store),
        scheduler_(store, blobs, clock_, ids_, completed(options.rules)),
        jobs_(scheduler_, store, targets_, control_, options_.limits),
        blob_service_(store, blobs, blob_io_, options_.limits),
        artifacts_(store, control_),
        execution_(scheduler_, store, control_, options_.limits),
        target_service_(targets_, control_),
        records_(store, control_),
        operator_service_(operators_, control_),
        workers_(scheduler_, operators_, control_, options_.limits),
        fleet_(scheduler_, store, control_) {}

  ~GrpcServer() override { stop(0); }

  absl::Status open() {
    TESSERA_TRY(targets_.storeBuiltins());
    TESSERA_TRY(scheduler_.recover(options_.local_worker_prefix));
    grpc::EnableDefaultHealthCheckService(true);
    static const bool reflection = [] {
      grpc::reflection::InitProtoReflectionServerBuilderPlugin();
      return true;
    }();
    (void)reflection;
    grpc::ServerBuilder builder;
    std::vector<int> ports(options_.listen.size(), 0);
    for (size_t i = 0; i < options_.listen.size(); ++i) {
      builder.AddListeningPort(options_.listen[i], grpc::InsecureServerCredentials(), &ports[i]);
    }
    builder.SetMaxReceiveMessageSize(options_.limits.max_message_bytes);
    builder.SetMaxSendMessageSize(-1);
    // Two servers on one port would share its clients; the second must fail instead.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // A worker on a dead machine is noticed by its lease; idle connections of clients stay.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder.SetResourceQuota(grpc::ResourceQuota("tesserad").Resize(kTransportMemory));
    grpc::Service* const services[] = {&jobs_,    &blob_service_,     &artifacts_, &execution_, &target_service_,
                                       &records_, &operator_service_, &workers_,   &fleet_};
    for (grpc::Service* service : services) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    for (size_t i = 0; i < ports.size(); ++i) {
      if (server_ == nullptr || ports[i] == 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("cannot listen on ", options_.listen[i], "; is the address right and the port free?"));
      }
      addresses_.push_back(withPort(options_.listen[i], ports[i]));
    }
    sweeper_ = std::thread([this] { sweepUntilStopped(); });
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }
  Scheduler& scheduler() override { return scheduler_; }

  void drain() override {
    scheduler_.setDraining(true);
    if (server_ != nullptr) {
      server_->GetHealthCheckService()->SetServingStatus(false);
    }
  }

  bool busy() override {
    bool any = false;
    const absl::Status status = store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(const std::vector<v1::Task> tasks, reader.leasedTasks());
      any = !tasks.empty();
      return absl::OkStatus();
    });
    return status.ok() && any;
  }

  void stop(int grace_ms) override {
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
      server_->Wait();
      server_.reset();
    }
    // What the last calls left behind still uses the scheduler.
    control_.stop();
    blob_io_.stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (sweeper_.joinable()) {
      sweeper_.join();
    }
  }

 private:
  /// "host:0" with the port the kernel chose; a Unix path as it is.
  static std::string withPort(const std::string& address, int port) {
    const size_t colon = address.rfind(':');
    if (absl::StartsWith(address, "unix:") || colon == std::string::npos) {
      return address;
    }
    return absl::StrCat(address.substr(0, colon), ":", port);
  }

  void sweepUntilStopped() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kSweepInterval, [this] { return stopping_; })) {
      lock.unlock();
      if (const absl::Status status = scheduler_.sweep(); !status.ok()) {
        spdlog::error("sweep: {}", std::string(status.message()));
      }
      lock.lock();
    }
  }

  storage::Store& store_;
  const ServerOptions options_;
  SystemClock clock_;
  RandomIds ids_;
  Executor control_;
  Executor blob_io_;
  TargetCatalog targets_;
  Scheduler scheduler_;
  JobService jobs_;
  BlobService blob_service_;
  ArtifactService artifacts_;
  ExecutionService execution_;
  TargetService target_service_;
  RecordService records_;
  OperatorCatalog operators_;
  OperatorService operator_service_;
  WorkerService workers_;
  FleetService fleet_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread sweeper_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::start(storage::Store& store, storage::BlobStore& blobs,
                                                      const ServerOptions& options) {
  auto server = std::make_unique<GrpcServer>(store, blobs, options);
  TESSERA_TRY(server->open());
  return server;
}

}  // namespace tessera::server
