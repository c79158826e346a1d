#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/testing/fake_work.h"
#include "server/testing/scheduler_bench.h"
#include "tessera/v1/admin_service.grpc.pb.h"
#include "tessera/v1/artifact.grpc.pb.h"
#include "tessera/v1/blob_service.grpc.pb.h"
#include "tessera/v1/execution_service.grpc.pb.h"
#include "tessera/v1/job.grpc.pb.h"
#include "tessera/v1/operator_service.grpc.pb.h"
#include "tessera/v1/record.grpc.pb.h"
#include "tessera/v1/target_service.grpc.pb.h"
#include "tessera/v1/worker_service.grpc.pb.h"

namespace tessera::server {

/// Uploads and downloads by gRPC.
v1::Digest digestOf(const std::string& bytes);
grpc::Status upload(v1::BlobService::Stub& stub, const std::string& bytes);
grpc::Status download(v1::BlobService::Stub& stub, const v1::DownloadBlobRequest& request, std::string& bytes);

/// A server on a free port over a store in a scratch folder, and clients' stubs to it.
class ServiceBench {
 public:
  explicit ServiceBench(ServerOptions options = {});
  ~ServiceBench();

  /// Closes server and store, and opens both again on the same folder and port.
  void restart();
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  v1::CreateJobRequest compileRequest(const std::string& id, const std::string& name, const std::string& units);
  v1::Job create(const v1::CreateJobRequest& request);
  v1::Job job(const std::string& id);
  /// Watches until the stream ends, and returns the events after the cursor.
  std::vector<v1::JobEvent> watch(const std::string& id, int64_t cursor = 0);

  std::unique_ptr<Server> server;
  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::BlobService::Stub> blobs;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts;
  std::unique_ptr<v1::ExecutionService::Stub> execution;
  std::unique_ptr<v1::TargetService::Stub> targets;
  std::unique_ptr<v1::RecordService::Stub> records;
  std::unique_ptr<v1::OperatorService::Stub> operators;
  std::unique_ptr<v1::WorkerService::Stub> workers;
  std::unique_ptr<v1::FleetService::Stub> fleet;  ///< as operator
  std::unique_ptr<v1::AdminService::Stub> admin;  ///< as operator
  std::shared_ptr<grpc::Channel> channel;         ///< of an anonymous caller, to the clients' listener
  std::shared_ptr<grpc::Channel> operator_channel;
  /// Opens a connection to the workers' listener, with this token; empty: without one.
  std::shared_ptr<grpc::Channel> insideChannel(const std::string& token) const;
  /// Likewise to the clients' listener.
  std::shared_ptr<grpc::Channel> clientChannel(const std::string& token) const;
  const std::string& folder() const { return folder_.path(); }
  storage::Store& store() { return *store_; }
  /// A workers' token that stays valid across restarts.
  const std::string& workerToken() const { return worker_token_; }
  std::string newToken(const std::string& name, v1::Role role, int64_t lifetime_us = 0,
                       const std::string& project = "");

 private:
  void open();

  ScratchFolder folder_;
  ServerOptions options_;
  int port_ = 0;
  int private_port_ = 0;
  std::string worker_token_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::BlobStore> blob_store_;
};

/// A worker in a thread: leases by gRPC, does fake work, reports; survives a restart of the server.
class FakeWorkerLoop {
 public:
  /// With a `trial` (see FakeWork) it measures too, as a host with the bench's target.
  FakeWorkerLoop(const ServiceBench& bench, std::string id, decltype(FakeWork::trial) trial = {});
  ~FakeWorkerLoop();

  /// Number of finished and accepted tasks of the kind.
  int done(v1::TaskKind kind) const { return done_[kind]; }

 private:
  void run();
  bool registerIfNeeded();
  void work(const v1::Lease& lease);

  const std::string id_;
  const decltype(FakeWork::trial) trial_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::unique_ptr<v1::BlobService::Stub> blobs_;
  std::atomic<bool> stopping_ = false;
  bool registered_ = false;
  std::atomic<int> done_[v1::TaskKind_ARRAYSIZE] = {};
  std::thread thread_;
};

}  // namespace tessera::server
