// Attempts of anonymous callers and of callers with the wrong role, and their answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "proto/version/version.h"
#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using testing::Not;

/// A unary call of a stub's method.
template <typename Stub, typename Request, typename Response>
grpc::Status call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response = nullptr) {
  grpc::ClientContext context;
  Response unread;
  return (stub.*method)(&context, request, response != nullptr ? response : &unread);
}

v1::RegisterWorkerRequest workerNamed(const std::string& id) {
  v1::RegisterWorkerRequest request;
  request.set_worker_id(id);
  request.set_compiler_version(compilerVersion());
  request.set_pid(1);
  return request;
}

/// A forged result of the only task, with guessed id, token and worker.
v1::ReportTaskRequest forged(const v1::Lease& lease) {
  v1::ReportTaskRequest report;
  report.set_worker_id("w");
  report.set_task_id(lease.task_id());
  report.set_fencing_token(lease.fencing_token());
  report.set_secret(std::string(16, 'x'));
  report.mutable_result()->mutable_failure()->set_reason(v1::Failure::INVALID_MODEL);
  return report;
}

class Access : public testing::Test {
 protected:
  /// A lease of worker "w", with the worker's credential.
  v1::Lease leaseOfW() {
    EXPECT_TRUE(call(*bench_.workers, &v1::WorkerService::Stub::RegisterWorker, workerNamed("w")).ok());
    (void)bench_.create(bench_.compileRequest("r1", "net", "a"));
    v1::LeaseTaskRequest ask;
    ask.set_worker_id("w");
    ask.set_wait_us(1'000'000);
    v1::LeaseTaskResponse given;
    EXPECT_TRUE(call(*bench_.workers, &v1::WorkerService::Stub::LeaseTask, ask, &given).ok());
    return given.lease();
  }

  ServiceBench bench_;
};

TEST_F(Access, ClientsAddressesServeNoWorkers) {
  const v1::Lease lease = leaseOfW();
  v1::WorkerService::Stub stub(bench_.channel);
  EXPECT_EQ(call(stub, &v1::WorkerService::Stub::ReportTask, forged(lease)).error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(call(stub, &v1::WorkerService::Stub::RegisterWorker, workerNamed("thief")).error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST_F(Access, WorkersShowACredential) {
  const v1::Lease lease = leaseOfW();
  const std::string client = bench_.newToken("ada", v1::CLIENT);
  const std::pair<std::string, StatusCode> wrong[] = {{"", StatusCode::UNAUTHENTICATED},
                                                      {"tessera-guessed", StatusCode::UNAUTHENTICATED},
                                                      {client, StatusCode::PERMISSION_DENIED}};
  for (const auto& [token, code] : wrong) {
    v1::WorkerService::Stub stub(bench_.insideChannel(token));
    EXPECT_EQ(call(stub, &v1::WorkerService::Stub::ReportTask, forged(lease)).error_code(), code) << token;
    EXPECT_EQ(call(stub, &v1::WorkerService::Stub::RegisterWorker, workerNamed("thief")).error_code(), code);
    v1::LeaseTaskRequest ask;
    ask.set_worker_id("w");
    EXPECT_EQ(call(stub, &v1::WorkerService::Stub::LeaseTask, ask).error_code(), code) << token;
    v1::HeartbeatRequest beat;
    beat.set_worker_id("w");
    EXPECT_EQ(call(stub, &v1::WorkerService::Stub::Heartbeat, beat).error_code(), code) << token;
  }
  EXPECT_EQ(call(*bench_.workers, &v1::WorkerService::Stub::ReportTask, forged(lease)).error_code(),
            StatusCode::ABORTED)
      << "a worker's credential without the lease's secret";
  EXPECT_EQ(bench_.job(lease.job_id()).state(), v1::Job::RUNNING);
}

TEST_F(Access, AWorkersNameIsItsCredentials) {
  (void)leaseOfW();
  v1::WorkerService::Stub other(bench_.insideChannel(bench_.newToken("other workers", v1::WORKER)));
  EXPECT_EQ(call(other, &v1::WorkerService::Stub::RegisterWorker, workerNamed("w")).error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(call(other, &v1::WorkerService::Stub::RegisterWorker, workerNamed("local-0")).error_code(),
            StatusCode::PERMISSION_DENIED);
  v1::LeaseTaskRequest ask;
  ask.set_worker_id("w");
  EXPECT_EQ(call(other, &v1::WorkerService::Stub::LeaseTask, ask).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(call(other, &v1::WorkerService::Stub::RegisterWorker, workerNamed("another")).ok());
}

TEST_F(Access, WhatAWorkerReportsIsBounded) {
  const v1::Lease lease = leaseOfW();
  v1::ReportTaskRequest good = forged(lease);
  good.set_secret(lease.secret());
  const std::pair<const char*, std::function<void(v1::ReportTaskRequest&)>> cases[] = {
      {"worker_id", [](auto& r) { r.set_worker_id("w\n[error] all is lost"); }},
      {"task_id", [](auto& r) { r.set_task_id(""); }},
      {"fencing_token", [](auto& r) { r.set_fencing_token(0); }},
      {"secret", [](auto& r) { r.set_secret("short"); }},
      {"result.failure",
       [](auto& r) { r.mutable_result()->mutable_failure()->set_message(std::string(1 << 20, 'x')); }},
      {"result.files[0].name", [](auto& r) { r.mutable_result()->add_files()->set_name("../../etc/passwd"); }},
      {"result.files[0].digest", [](auto& r) { r.mutable_result()->add_files()->set_name("plan.pb"); }},
      {"size_bytes",
       [](auto& r) {
         auto* file = r.mutable_result()->add_files();
         file->set_name("plan.pb");
         *file->mutable_digest() = digestOf("x");
         file->mutable_digest()->set_size_bytes(-1);
       }},
      {"result.measure.steps.median_ms",
       [](auto& r) { r.mutable_result()->mutable_measure()->add_steps()->set_median_ms(-1); }},
      {"result.search.batch.speeds",
       [](auto& r) { r.mutable_result()->mutable_search()->mutable_batch()->add_speeds(9); }},
  };
  for (const auto& [field, spoil] : cases) {
    v1::ReportTaskRequest request = good;
    spoil(request);
    const grpc::Status status = call(*bench_.workers, &v1::WorkerService::Stub::ReportTask, request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_THAT(status.error_message(), HasSubstr(field));
  }
  EXPECT_TRUE(call(*bench_.workers, &v1::WorkerService::Stub::ReportTask, good).ok());
}

TEST_F(Access, StrangersAreClientsAndNoMore) {
  v1::FleetService::Stub fleet(bench_.channel);
  v1::DrainWorkerRequest drain;
  drain.set_worker_id("w");
  EXPECT_EQ(call(fleet, &v1::FleetService::Stub::DrainWorker, drain).error_code(), StatusCode::PERMISSION_DENIED);
  v1::AdminService::Stub admin(bench_.channel);
  v1::CreateTokenRequest token;
  token.set_name("me");
  token.set_role(v1::OPERATOR);
  EXPECT_EQ(call(admin, &v1::AdminService::Stub::CreateToken, token).error_code(), StatusCode::PERMISSION_DENIED);
  v1::CreateJobRequest urgent = bench_.compileRequest("r1", "net", "a");
  urgent.set_priority(1000);
  const grpc::Status status = call(*bench_.jobs, &v1::JobService::Stub::CreateJob, urgent);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("priority"));
  v1::JobService::Stub as_operator(bench_.operator_channel);
  EXPECT_TRUE(call(as_operator, &v1::JobService::Stub::CreateJob, urgent).ok());
}

TEST_F(Access, EachEndsTheirOwnJobs) {
  v1::JobService::Stub ada(bench_.clientChannel(bench_.newToken("ada", v1::CLIENT)));
  v1::JobService::Stub bob(bench_.clientChannel(bench_.newToken("bob", v1::CLIENT)));
  v1::JobService::Stub reader(bench_.clientChannel(bench_.newToken("eve", v1::READER)));
  v1::CreateJobRequest request = bench_.compileRequest("r1", "net", "a");
  request.set_client("bob");  // whatever name it sends
  v1::CreateJobResponse made;
  ASSERT_TRUE(call(ada, &v1::JobService::Stub::CreateJob, request, &made).ok());
  EXPECT_EQ(made.job().client(), "ada");
  v1::CancelJobRequest cancel;
  cancel.set_id(made.job().id());
  for (v1::JobService::Stub* other : {&bob, &reader, bench_.jobs.get()}) {
    EXPECT_EQ(call(*other, &v1::JobService::Stub::CancelJob, cancel).error_code(), StatusCode::PERMISSION_DENIED);
  }
  EXPECT_EQ(call(reader, &v1::JobService::Stub::CreateJob, request).error_code(), StatusCode::PERMISSION_DENIED);
  v1::GetJobRequest get;
  get.set_id(made.job().id());
  EXPECT_TRUE(call(reader, &v1::JobService::Stub::GetJob, get).ok());
  request.set_request_id("r2");
  EXPECT_EQ(call(*bench_.jobs, &v1::JobService::Stub::CreateJob, request).error_code(), StatusCode::PERMISSION_DENIED)
      << "a stranger goes by the name of one who is known";
  EXPECT_TRUE(call(ada, &v1::JobService::Stub::CancelJob, cancel).ok());
}

TEST_F(Access, TokensEnd) {
  const std::string brief = bench_.newToken("brief", v1::CLIENT, 1);
  const std::string lasting = bench_.newToken("lasting", v1::CLIENT);
  v1::JobService::Stub late(bench_.clientChannel(brief));
  v1::JobService::Stub good(bench_.clientChannel(lasting));
  const v1::ListJobsRequest list;
  grpc::Status status = call(late, &v1::JobService::Stub::ListJobs, list);
  EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("expired"));
  EXPECT_TRUE(call(good, &v1::JobService::Stub::ListJobs, list).ok());

  v1::ListTokensResponse tokens;
  ASSERT_TRUE(call(*bench_.admin, &v1::AdminService::Stub::ListTokens, v1::ListTokensRequest(), &tokens).ok());
  v1::RevokeTokenRequest revoke;
  for (const v1::AccessToken& token : tokens.tokens()) {
    if (token.name() == "lasting") revoke.set_id(token.id());
  }
  ASSERT_TRUE(call(*bench_.admin, &v1::AdminService::Stub::RevokeToken, revoke).ok());
  for (int restarts = 0; restarts < 2; ++restarts) {
    v1::JobService::Stub ended(bench_.clientChannel(lasting));
    status = call(ended, &v1::JobService::Stub::ListJobs, list);
    EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED) << restarts;
    EXPECT_THAT(status.error_message(), HasSubstr("revoked"));
    bench_.restart();
  }
  revoke.set_id("no such token");
  EXPECT_EQ(call(*bench_.admin, &v1::AdminService::Stub::RevokeToken, revoke).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(Access, NoFileHoldsAToken) {
  const std::string token = bench_.newToken("ada", v1::CLIENT);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bench_.folder())) {
    if (entry.is_regular_file()) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      EXPECT_THAT(content, Not(HasSubstr(token))) << entry.path();
      ++files;
    }
  }
  EXPECT_GT(files, 1);
}

TEST_F(Access, MessagesAreAsLargeAsTheyArrive) {
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  arguments.SetMaxSendMessageSize(-1);
  v1::JobService::Stub stub(grpc::CreateCustomChannel(bench_.address(), grpc::InsecureChannelCredentials(), arguments));
  v1::CreateJobRequest request;
  request.mutable_execute()->add_inputs()->set_data(std::string(15 << 20, 'x'));  // about 15 kB compressed
  EXPECT_EQ(call(stub, &v1::JobService::Stub::CreateJob, request).error_code(), StatusCode::UNIMPLEMENTED);
}

TEST(Gate, WhatWaitsIsBounded) {
  ServerOptions options;
  options.gate.max_held_bytes = 10 << 20;
  options.gate.max_calls_of_one = 3;
  ServiceBench bench(options);
  v1::CreateJobRequest request;
  request.mutable_execute()->add_inputs()->set_data(std::string(11 << 20, 'x'));
  grpc::Status status = call(*bench.jobs, &v1::JobService::Stub::CreateJob, request);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();

  const v1::Job waiting = bench.create(bench.compileRequest("r1", "net", "a"));
  v1::WatchJobRequest watch;
  watch.set_id(waiting.id());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>>> watches;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (watches.size() < 3) {
    auto context = std::make_unique<grpc::ClientContext>();
    auto reader = bench.jobs->WatchJob(context.get(), watch);
    v1::WatchJobResponse first;
    if (reader->Read(&first)) {  // the call is in progress
      contexts.push_back(std::move(context));
      watches.push_back(std::move(reader));
      continue;
    }
    // The server may not have released the previous calls yet, although the client has their answers.
    status = reader->Finish();
    ASSERT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
  }
  v1::GetJobRequest get;
  get.set_id(waiting.id());
  EXPECT_EQ(call(*bench.jobs, &v1::JobService::Stub::GetJob, get).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  v1::JobService::Stub another(bench.clientChannel(bench.newToken("ada", v1::CLIENT)));
  EXPECT_TRUE(call(another, &v1::JobService::Stub::GetJob, get).ok()) << "one's calls are not another's";
  for (auto& context : contexts) context->TryCancel();
  for (auto& reader : watches) (void)reader->Finish();
  // The server learns of it slightly later than this client.
  do {
    status = call(*bench.jobs, &v1::JobService::Stub::GetJob, get);
  } while (!status.ok() && std::chrono::steady_clock::now() < give_up);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace tessera::server
