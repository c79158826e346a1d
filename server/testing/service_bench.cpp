#include "server/testing/service_bench.h"

#include <chrono>
#include <thread>

#include "compiler/target/target.h"
#include "proto/channel/identity.h"
#include "proto/support/sha256.h"
#include "proto/version/version.h"
#include "storage/sqlite_store.h"

namespace tessera::server {

v1::Digest digestOf(const std::string& bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

namespace {

/// A separate connection that reconnects quickly: by default all channels of a process to one address share a
/// connection, with its delays after a failure.
std::shared_ptr<grpc::Channel> connect(const std::string& address, const std::string& token = "") {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  Identity identity;
  identity.token = token;
  return openChannel(address, identity, arguments).value();
}

int portOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

grpc::Status uploadOnce(v1::BlobService::Stub& stub, const std::string& bytes) {
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto writer = stub.UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  *request.mutable_digest() = digestOf(bytes);
  for (size_t at = 0; at == 0 || at < bytes.size(); at += 1 << 20) {
    request.set_data(bytes.substr(at, 1 << 20));
    if (!writer->Write(request)) {
      break;  // the server has answered already: Finish() has the status
    }
    request.Clear();
  }
  writer->WritesDone();
  return writer->Finish();
}

}  // namespace

grpc::Status upload(v1::BlobService::Stub& stub, const std::string& bytes) {
  grpc::Status status = uploadOnce(stub, bytes);
  while (status.error_code() == grpc::StatusCode::ABORTED) {  // another upload of the same blob is in progress
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    status = uploadOnce(stub, bytes);
  }
  return status;
}

grpc::Status download(v1::BlobService::Stub& stub, const v1::DownloadBlobRequest& request, std::string& bytes) {
  grpc::ClientContext context;
  auto reader = stub.DownloadBlob(&context, request);
  bytes.clear();
  v1::DownloadBlobResponse response;
  while (reader->Read(&response)) {
    bytes += response.data();
  }
  return reader->Finish();
}

ServiceBench::ServiceBench(ServerOptions options) : options_(std::move(options)) { open(); }

ServiceBench::~ServiceBench() { server.reset(); }

void ServiceBench::open() {
  store_ = storage::openSqliteStore(folder_.path() + "/tessera.db").value();
  blob_store_ = storage::openBlobStore(folder_.path() + "/blobs", {.rows = store_.get()}).value();
  options_.listen = {"127.0.0.1:" + std::to_string(port_)};
  options_.private_listen = "127.0.0.1:" + std::to_string(private_port_);
  auto started = Server::start(*store_, *blob_store_, options_);
  ASSERT_TRUE(started.ok()) << started.status();
  server = *std::move(started);
  const std::string bound = server->addresses().front();
  port_ = portOf(bound);
  private_port_ = portOf(server->privateAddress());
  channel = connect(bound);
  jobs = v1::JobService::NewStub(channel);
  blobs = v1::BlobService::NewStub(channel);
  artifacts = v1::ArtifactService::NewStub(channel);
  execution = v1::ExecutionService::NewStub(channel);
  targets = v1::TargetService::NewStub(channel);
  records = v1::RecordService::NewStub(channel);
  operators = v1::OperatorService::NewStub(channel);
  operator_channel = insideChannel(server->operatorToken());
  fleet = v1::FleetService::NewStub(operator_channel);
  admin = v1::AdminService::NewStub(operator_channel);
  if (worker_token_.empty()) {
    worker_token_ = newToken("the test's workers", v1::WORKER);
  }
  workers = v1::WorkerService::NewStub(insideChannel(worker_token_));
}

std::shared_ptr<grpc::Channel> ServiceBench::insideChannel(const std::string& token) const {
  return connect("127.0.0.1:" + std::to_string(private_port_), token);
}

std::shared_ptr<grpc::Channel> ServiceBench::clientChannel(const std::string& token) const {
  return connect(address(), token);
}

std::string ServiceBench::newToken(const std::string& name, v1::Role role, int64_t lifetime_us,
                                   const std::string& project) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);  // a first connection attempt has 20 ms, which may be too short on a busy machine
  v1::CreateTokenRequest request;
  request.set_name(name);
  request.set_role(role);
  request.set_project(project);
  request.set_lifetime_us(lifetime_us);
  v1::CreateTokenResponse response;
  const grpc::Status status = admin->CreateToken(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.secret();
}

void ServiceBench::restart() {
  server.reset();
  store_.reset();
  blob_store_.reset();
  open();
}

v1::CreateJobRequest ServiceBench::compileRequest(const std::string& id, const std::string& name,
                                                  const std::string& units) {
  const std::string model = "model " + name + ": " + units;
  const grpc::Status status = upload(*blobs, model);
  EXPECT_TRUE(status.ok()) << status.error_message();
  v1::CreateJobRequest request;
  request.set_request_id(id);
  *request.mutable_compile()->mutable_model() = digestOf(model);
  request.mutable_compile()->set_name(name);
  request.mutable_compile()->mutable_target()->set_name("cascadelake");
  return request;
}

v1::Job ServiceBench::create(const v1::CreateJobRequest& request) {
  grpc::ClientContext context;
  v1::CreateJobResponse response;
  const grpc::Status status = jobs->CreateJob(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.job();
}

v1::Job ServiceBench::job(const std::string& id) {
  grpc::ClientContext context;
  v1::GetJobRequest request;
  request.set_id(id);
  v1::GetJobResponse response;
  const grpc::Status status = jobs->GetJob(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.job();
}

std::vector<v1::JobEvent> ServiceBench::watch(const std::string& id, int64_t cursor) {
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_id(id);
  request.set_cursor(cursor);
  auto reader = jobs->WatchJob(&context, request);
  std::vector<v1::JobEvent> events;
  v1::WatchJobResponse response;
  while (reader->Read(&response)) {
    events.push_back(response.event());
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return events;
}

FakeWorkerLoop::FakeWorkerLoop(const ServiceBench& bench, std::string id, decltype(FakeWork::trial) trial)
    : id_(std::move(id)), trial_(std::move(trial)) {
  const auto channel = bench.insideChannel(bench.workerToken());
  stub_ = v1::WorkerService::NewStub(channel);
  blobs_ = v1::BlobService::NewStub(channel);
  thread_ = std::thread([this] { run(); });
}

FakeWorkerLoop::~FakeWorkerLoop() {
  stopping_ = true;
  thread_.join();
}

bool FakeWorkerLoop::registerIfNeeded() {
  if (!registered_) {
    grpc::ClientContext context;
    v1::RegisterWorkerRequest request;
    request.set_worker_id(id_);
    request.set_compiler_version(compilerVersion());
    request.set_pid(1);
    if (trial_) {
      const v1::CodeForm& code = compiler::findBuiltinTarget("cascadelake")->code();
      request.set_measuring_cores(1);
      request.mutable_host()->set_triple(code.triple());
      *request.mutable_host()->mutable_features() = code.features();
    }
    v1::RegisterWorkerResponse response;
    registered_ = stub_->RegisterWorker(&context, request, &response).ok();
  }
  return registered_;
}

void FakeWorkerLoop::run() {
  while (!stopping_) {
    if (!registerIfNeeded()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    grpc::ClientContext context;
    v1::LeaseTaskRequest request;
    request.set_worker_id(id_);
    request.set_wait_us(50'000);
    v1::LeaseTaskResponse response;
    if (!stub_->LeaseTask(&context, request, &response).ok()) {
      registered_ = false;
    } else if (response.has_lease()) {
      work(response.lease());
    }
  }
}

void FakeWorkerLoop::work(const v1::Lease& lease) {
  FakeWork work(
      [this](const v1::Digest& digest) {
        v1::DownloadBlobRequest request;
        request.set_sha256(digest.sha256());
        std::string bytes;
        (void)download(*blobs_, request, bytes);
        return bytes;
      },
      [this](const std::string& bytes) {
        (void)upload(*blobs_, bytes);
        return digestOf(bytes);
      });
  work.trial = trial_;
  v1::ReportTaskRequest report;
  report.set_worker_id(id_);
  report.set_task_id(lease.task_id());
  report.set_fencing_token(lease.fencing_token());
  report.set_secret(lease.secret());
  *report.mutable_result() = work.run(lease.task());
  while (!stopping_) {
    grpc::ClientContext context;
    v1::ReportTaskResponse response;
    const grpc::Status status = stub_->ReportTask(&context, report, &response);
    if (status.ok()) {
      ++done_[lease.task().kind()];
      return;
    }
    if (status.error_code() == grpc::StatusCode::ABORTED) {
      return;
    }
    if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      *report.mutable_result() = work.run(lease.task());  // an upload was interrupted
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace tessera::server
