#include "workers/testing/fake_server.h"

#include <chrono>

#include "proto/support/sha256.h"
#include "workers/file_digest.h"

namespace tessera::worker {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr int64_t kChunk = 1 << 20;

std::string sha256Of(const std::string& bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace

struct FakeServer::State {
  struct Task {
    v1::TaskSpec spec;
    int64_t token = 0;
    bool leased = false;
    v1::HeartbeatResponse::Verdict verdict = v1::HeartbeatResponse::GO_ON;
    Status report_status;
    std::vector<v1::HeartbeatRequest> heartbeats;
    std::vector<v1::ReportTaskRequest> reports;
  };

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  bool heartbeats_fail = false;
  std::map<std::string, Task> tasks;
  std::deque<std::string> ready;
  std::set<std::string> known_workers;
  int registrations = 0;
  std::map<std::string, std::string> blobs;
  std::map<std::string, std::string> partial;
  std::vector<int64_t> upload_offsets;
  int downloads = 0;
  bool broke_upload = false;
  std::vector<v1::LeaseTaskRequest> lease_requests;
};

class FakeServer::Workers : public v1::WorkerService::Service {
 public:
  Workers(State& state, const Behaviour& behaviour) : state_(state), behaviour_(behaviour) {}

  Status RegisterWorker(ServerContext*, const v1::RegisterWorkerRequest* request,
                        v1::RegisterWorkerResponse* response) override {
    if (request->compiler_version() != behaviour_.compiler_version) {
      return {StatusCode::FAILED_PRECONDITION, "another compiler"};
    }
    const std::lock_guard lock(state_.mutex);
    ++state_.registrations;
    state_.known_workers.insert(request->worker_id());
    response->set_lease_us(behaviour_.lease_us);
    response->set_heartbeat_us(behaviour_.heartbeat_us);
    return Status::OK;
  }

  Status LeaseTask(ServerContext*, const v1::LeaseTaskRequest* request, v1::LeaseTaskResponse* response) override {
    std::unique_lock lock(state_.mutex);
    if (!state_.known_workers.contains(request->worker_id())) {
      return {StatusCode::FAILED_PRECONDITION, "register first"};
    }
    state_.lease_requests.push_back(*request);
    state_.changed.notify_all();
    if (!request->trouble().empty()) return Status::OK;
    state_.changed.wait_for(lock, std::chrono::microseconds(request->wait_us()),
                            [&] { return state_.stopping || !state_.ready.empty(); });
    if (state_.stopping || state_.ready.empty()) return Status::OK;
    const std::string id = state_.ready.front();
    state_.ready.pop_front();
    State::Task& task = state_.tasks[id];
    task.leased = true;
    v1::Lease& lease = *response->mutable_lease();
    lease.set_task_id(id);
    lease.set_fencing_token(++task.token);
    lease.set_secret("of task " + id);
    lease.set_attempt(static_cast<int32_t>(task.token));
    lease.set_lease_us(behaviour_.lease_us);
    *lease.mutable_task() = task.spec;
    if (behaviour_.enclose_inputs) {
      for (const v1::Digest& digest : task.spec.inputs()) {
        v1::BlobBytes& input = *lease.add_inputs();
        *input.mutable_digest() = digest;
        input.set_data(state_.blobs[digest.sha256()]);
      }
    }
    state_.changed.notify_all();
    return Status::OK;
  }

  Status Heartbeat(ServerContext*, const v1::HeartbeatRequest* request, v1::HeartbeatResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    if (state_.heartbeats_fail) return {StatusCode::UNAVAILABLE, "on purpose"};
    if (!state_.known_workers.contains(request->worker_id())) {
      return {StatusCode::FAILED_PRECONDITION, "register first"};
    }
    State::Task& task = state_.tasks[request->task_id()];
    task.heartbeats.push_back(*request);
    response->set_verdict(task.verdict);
    state_.changed.notify_all();
    return Status::OK;
  }

  Status ReportTask(ServerContext*, const v1::ReportTaskRequest* request, v1::ReportTaskResponse*) override {
    const std::lock_guard lock(state_.mutex);
    State::Task& task = state_.tasks[request->task_id()];
    task.reports.push_back(*request);
    for (const v1::OutputFile& file : request->result().files()) {
      if (!file.data().empty()) state_.blobs[sha256Hex(file.data())] = file.data();
    }
    state_.changed.notify_all();
    return task.report_status;
  }

 private:
  State& state_;
  const Behaviour& behaviour_;
};

class FakeServer::Blobs : public v1::BlobService::Service {
 public:
  Blobs(State& state, const Behaviour& behaviour) : state_(state), behaviour_(behaviour) {}

  Status FindMissingBlobs(ServerContext*, const v1::FindMissingBlobsRequest* request,
                          v1::FindMissingBlobsResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    for (const v1::Digest& digest : request->digests()) {
      if (!state_.blobs.contains(digest.sha256())) *response->add_missing() = digest;
    }
    return Status::OK;
  }

  Status QueryUpload(ServerContext*, const v1::QueryUploadRequest* request,
                     v1::QueryUploadResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    response->set_complete(state_.blobs.contains(request->digest().sha256()));
    response->set_committed_bytes(static_cast<int64_t>(state_.partial[request->digest().sha256()].size()));
    return Status::OK;
  }

  Status UploadBlob(ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                    v1::UploadBlobResponse* response) override {
    v1::UploadBlobRequest request;
    if (!reader->Read(&request)) return {StatusCode::INVALID_ARGUMENT, "no first message"};
    const std::string sha256 = request.digest().sha256();
    const std::lock_guard lock(state_.mutex);
    std::string& bytes = state_.partial[sha256];
    if (request.offset() != static_cast<int64_t>(bytes.size())) return {StatusCode::OUT_OF_RANGE, "offset"};
    state_.upload_offsets.push_back(request.offset());
    while (reader->Read(&request)) {
      if (static_cast<int64_t>(request.data().size()) > kChunk) return {StatusCode::INVALID_ARGUMENT, "chunk"};
      bytes += request.data();
      if (behaviour_.break_upload_after > 0 && !state_.broke_upload &&
          static_cast<int64_t>(bytes.size()) >= behaviour_.break_upload_after) {
        state_.broke_upload = true;
        return {StatusCode::UNAVAILABLE, "on purpose"};
      }
    }
    if (sha256Of(bytes) != sha256) {
      state_.partial.erase(sha256);
      return {StatusCode::DATA_LOSS, "hash"};
    }
    state_.blobs[sha256] = std::move(bytes);
    state_.partial.erase(sha256);
    response->mutable_digest()->set_sha256(sha256);
    return Status::OK;
  }

  Status DownloadBlob(ServerContext*, const v1::DownloadBlobRequest* request,
                      grpc::ServerWriter<v1::DownloadBlobResponse>* writer) override {
    std::string bytes;
    {
      const std::lock_guard lock(state_.mutex);
      ++state_.downloads;
      const auto found = state_.blobs.find(request->sha256());
      if (found == state_.blobs.end()) return {StatusCode::NOT_FOUND, "no such blob"};
      bytes = found->second;
    }
    for (size_t at = static_cast<size_t>(request->offset()); at < bytes.size(); at += kChunk) {
      v1::DownloadBlobResponse response;
      response.set_data(bytes.substr(at, kChunk));
      if (!writer->Write(response)) break;
    }
    return Status::OK;
  }

 private:
  State& state_;
  const Behaviour& behaviour_;
};

FakeServer::FakeServer(std::string address)
    : address_(std::move(address)),
      state_(std::make_unique<State>()),
      workers_(std::make_unique<Workers>(*state_, behaviour)),
      blobs_(std::make_unique<Blobs>(*state_, behaviour)) {}

FakeServer::~FakeServer() { stop(); }

void FakeServer::start() {
  state_->stopping = false;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(workers_.get());
  builder.RegisterService(blobs_.get());
  server_ = builder.BuildAndStart();
}

void FakeServer::stop() {
  if (!server_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    if (behaviour.forget_worker_on_restart) state_->known_workers.clear();
  }
  state_->changed.notify_all();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeServer::setHeartbeatsFail(bool fail) {
  const std::lock_guard lock(state_->mutex);
  state_->heartbeats_fail = fail;
}

void FakeServer::setVerdict(const std::string& task_id, v1::HeartbeatResponse::Verdict verdict) {
  const std::lock_guard lock(state_->mutex);
  state_->tasks[task_id].verdict = verdict;
}

void FakeServer::setReportStatus(const std::string& task_id, Status status) {
  const std::lock_guard lock(state_->mutex);
  state_->tasks[task_id].report_status = std::move(status);
}

void FakeServer::corruptBlob(const std::string& sha256) {
  const std::lock_guard lock(state_->mutex);
  state_->blobs[sha256].front() ^= 1;
}

v1::Digest FakeServer::putBlob(const std::string& bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256Of(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  const std::lock_guard lock(state_->mutex);
  state_->blobs[digest.sha256()] = bytes;
  return digest;
}

std::string FakeServer::blob(const std::string& sha256) {
  const std::lock_guard lock(state_->mutex);
  return state_->blobs[sha256];
}

std::string FakeServer::addTask(const v1::TaskSpec& spec) {
  const std::lock_guard lock(state_->mutex);
  const std::string id = "task-" + std::to_string(state_->tasks.size() + 1);
  state_->tasks[id].spec = spec;
  state_->ready.push_back(id);
  state_->changed.notify_all();
  return id;
}

v1::ReportTaskRequest FakeServer::waitForReport(const std::string& task_id) {
  std::unique_lock lock(state_->mutex);
  State::Task& task = state_->tasks[task_id];
  state_->changed.wait(lock, [&] { return !task.reports.empty(); });
  return task.reports.back();
}

void FakeServer::waitForLease(const std::string& task_id) {
  std::unique_lock lock(state_->mutex);
  State::Task& task = state_->tasks[task_id];
  state_->changed.wait(lock, [&] { return task.leased; });
}

v1::HeartbeatRequest FakeServer::waitForHeartbeat(const std::string& task_id,
                                                  const std::function<bool(const v1::HeartbeatRequest&)>& accept) {
  std::unique_lock lock(state_->mutex);
  State::Task& task = state_->tasks[task_id];
  v1::HeartbeatRequest found;
  state_->changed.wait(lock, [&] {
    for (const auto& heartbeat : task.heartbeats) {
      found = heartbeat;
      if (accept(heartbeat)) return true;
    }
    return false;
  });
  return found;
}

size_t FakeServer::leaseRequests() {
  const std::lock_guard lock(state_->mutex);
  return state_->lease_requests.size();
}

v1::LeaseTaskRequest FakeServer::waitForLeaseRequest(const std::function<bool(const v1::LeaseTaskRequest&)>& accept) {
  std::unique_lock lock(state_->mutex);
  size_t next = state_->lease_requests.size();
  state_->changed.wait(lock, [&] {
    for (; next < state_->lease_requests.size(); ++next) {
      if (accept(state_->lease_requests[next])) return true;
    }
    return false;
  });
  return state_->lease_requests[next];
}

size_t FakeServer::reports(const std::string& task_id) {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks[task_id].reports.size();
}

int FakeServer::registrations() {
  const std::lock_guard lock(state_->mutex);
  return state_->registrations;
}

int FakeServer::downloads() {
  const std::lock_guard lock(state_->mutex);
  return state_->downloads;
}

std::vector<int64_t> FakeServer::uploadOffsets() {
  const std::lock_guard lock(state_->mutex);
  return state_->upload_offsets;
}

}  // namespace tessera::worker
