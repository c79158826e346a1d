// Analyses of models, and the operators that the compiler imports, by gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/version/version.h"
#include "server/testing/service_bench.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

v1::CreateJobRequest checkRequest(ServiceBench& bench, const std::string& id, const std::string& units) {
  v1::CreateJobRequest request = bench.compileRequest(id, "net", units);
  v1::AnalyzeSpec spec;
  *spec.mutable_compile() = request.compile();
  spec.set_question(v1::AnalyzeSpec::CHECK);
  *request.mutable_analyze() = spec;
  return request;
}

std::vector<v1::Job> jobsWhere(ServiceBench& bench, const std::string& filter) {
  grpc::ClientContext context;
  v1::ListJobsRequest request;
  request.set_filter(filter);
  v1::ListJobsResponse response;
  const grpc::Status status = bench.jobs->ListJobs(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return {response.jobs().begin(), response.jobs().end()};
}

TEST(Analysis, TheReportIsABlobThatClientsFetch) {
  ServiceBench bench;
  const v1::Job created = bench.create(checkRequest(bench, "r1", "good bad fine bad"));
  EXPECT_EQ(created.state(), v1::Job::QUEUED);
  {
    FakeWorkerLoop worker(bench, "w");
    bench.watch(created.id());
  }
  const v1::Job job = bench.job(created.id());
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.ShortDebugString();
  EXPECT_EQ(job.analyze_result().problems(), 2);
  ASSERT_EQ(job.phases_size(), 1);
  EXPECT_EQ(job.phases(0).phase(), "analyze");
  v1::DownloadBlobRequest request;
  request.set_sha256(job.analyze_result().report().sha256());
  std::string bytes;
  ASSERT_TRUE(download(*bench.blobs, request, bytes).ok());
  v1::CheckReport report;
  ASSERT_TRUE(report.ParseFromString(bytes));
  EXPECT_EQ(report.problems_size(), 2);
}

TEST(Analysis, EveryQuestionIsAskedAnew) {
  ServiceBench bench;
  FakeWorkerLoop worker(bench, "w");
  for (const char* id : {"r1", "r2"}) {
    const v1::Job created = bench.create(checkRequest(bench, id, "a"));
    bench.watch(created.id());
    const v1::Job job = bench.job(created.id());
    EXPECT_FALSE(job.cached());
    EXPECT_EQ(job.action_key(), "");
  }
}

TEST(Analysis, ListsTellItFromCompilations) {
  ServiceBench bench;
  bench.create(bench.compileRequest("r1", "net", "a"));
  const v1::Job asked = bench.create(checkRequest(bench, "r2", "a"));
  const std::vector<v1::Job> found = jobsWhere(bench, "kind = ANALYZE AND name = net AND target = cascadelake");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id(), asked.id());
  EXPECT_EQ(jobsWhere(bench, "kind = COMPILE").size(), 1U);
}

TEST(Analysis, ACancelledQuestionEnds) {
  ServiceBench bench;
  const v1::Job created = bench.create(checkRequest(bench, "r1", "a"));
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_id(created.id());
  v1::CancelJobResponse response;
  ASSERT_TRUE(bench.jobs->CancelJob(&context, request, &response).ok());
  EXPECT_EQ(response.job().state(), v1::Job::CANCELLED);
}

TEST(Analysis, RefusalsNameTheField) {
  ServiceBench bench;
  v1::CreateJobRequest request = checkRequest(bench, "r1", "a");
  request.mutable_analyze()->clear_question();
  grpc::ClientContext context;
  v1::CreateJobResponse response;
  const grpc::Status status = bench.jobs->CreateJob(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("analyze.question"));

  request = checkRequest(bench, "r2", "a");
  *request.mutable_analyze()->mutable_compile()->mutable_model() = digestOf("never uploaded");
  grpc::ClientContext another;
  EXPECT_EQ(bench.jobs->CreateJob(&another, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

grpc::Status listOperators(ServiceBench& bench, const std::string& filter, v1::ListOperatorsResponse& response) {
  grpc::ClientContext context;
  v1::ListOperatorsRequest request;
  request.set_filter(filter);
  return bench.operators->ListOperators(&context, request, &response);
}

void registerWith(ServiceBench& bench, const std::vector<std::string>& operators) {
  grpc::ClientContext context;
  v1::RegisterWorkerRequest request;
  request.set_worker_id("w");
  request.set_compiler_version(compilerVersion());
  for (const std::string& name : operators) request.add_operators()->set_name(name);
  v1::RegisterWorkerResponse response;
  const grpc::Status status = bench.workers->RegisterWorker(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(Operators, AreThoseOfTheNewestWorker) {
  ServiceBench bench;
  v1::ListOperatorsResponse response;
  const grpc::Status none = listOperators(bench, "", response);
  EXPECT_EQ(none.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(none.error_message(), HasSubstr("tessera-worker"));

  registerWith(bench, {"Conv", "Relu"});
  ASSERT_TRUE(listOperators(bench, "", response).ok());
  EXPECT_EQ(response.operators_size(), 2);
  EXPECT_EQ(response.compiler_version(), compilerVersion());
  registerWith(bench, {});  // an older worker, which announces none
  ASSERT_TRUE(listOperators(bench, "name = Conv", response).ok());
  ASSERT_EQ(response.operators_size(), 1);
  EXPECT_EQ(response.operators(0).name(), "Conv");

  registerWith(bench, {"Add", "Conv", "Relu"});
  ASSERT_TRUE(listOperators(bench, "", response).ok());
  EXPECT_EQ(response.operators_size(), 3);
  EXPECT_EQ(listOperators(bench, "speed = 3", response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tessera::server
