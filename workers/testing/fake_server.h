#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tessera/v1/blob_service.grpc.pb.h"
#include "tessera/v1/worker_service.grpc.pb.h"

namespace tessera::worker {

/// A tesserad for tests of the worker: tasks and blobs in memory, over a real socket. It can stop and restart at the
/// same address, and misbehave on request. Its state survives a restart.
class FakeServer {
 public:
  explicit FakeServer(std::string address);
  ~FakeServer();

  void start();
  void stop();  ///< breaks connections and cancels calls in progress

  /// Behaviour of the server; set it before start() or between stop() and start(), except where noted.
  struct Behaviour {
    int64_t lease_us = 10'000'000;
    int64_t heartbeat_us = 20'000;
    std::string compiler_version = "test";
    int64_t break_upload_after = 0;  ///< bytes after which the first upload is interrupted
    bool forget_worker_on_restart = false;
    bool enclose_inputs = false;  ///< send inputs with the lease
  };
  Behaviour behaviour;

  void setHeartbeatsFail(bool fail);                                                    ///< any time
  void setVerdict(const std::string& task_id, v1::HeartbeatResponse::Verdict verdict);  ///< any time
  void setReportStatus(const std::string& task_id, grpc::Status status);                ///< any time
  void corruptBlob(const std::string& sha256);

  v1::Digest putBlob(const std::string& bytes);
  std::string blob(const std::string& sha256);
  std::string addTask(const v1::TaskSpec& spec);

  /// Block until the condition holds; the test's own timeout bounds the wait.
  v1::ReportTaskRequest waitForReport(const std::string& task_id);
  void waitForLease(const std::string& task_id);
  v1::HeartbeatRequest waitForHeartbeat(const std::string& task_id,
                                        const std::function<bool(const v1::HeartbeatRequest&)>& accept);
  /// Waits for the next lease request that `accept` accepts.
  v1::LeaseTaskRequest waitForLeaseRequest(const std::function<bool(const v1::LeaseTaskRequest&)>& accept);

  size_t reports(const std::string& task_id);
  size_t leaseRequests();  ///< number of lease requests so far
  int registrations();
  std::vector<int64_t> uploadOffsets();
  int downloads();

 private:
  class Workers;
  class Blobs;
  struct State;

  const std::string address_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Blobs> blobs_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tessera::worker
