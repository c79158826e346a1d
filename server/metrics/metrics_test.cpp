// Metrics and health of a service that works, waits, rejects, drains and fails.
#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <future>
#include <map>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class Monitored : public testing::Test {
 protected:
  explicit Monitored(bool need_token = false) : bench_(options(metrics_, need_token)) {}

  static ServerOptions options(Metrics& metrics, bool need_token) {
    ServerOptions options;
    options.metrics_listen = {"127.0.0.1:0"};
    options.metrics = &metrics;
    options.metrics_need_token = need_token;
    return options;
  }

  httplib::Result get(const std::string& path, const httplib::Headers& headers = {}) const {
    httplib::Client client("http://" + bench_.server->metricsAddresses().front());
    client.set_read_timeout(20);
    return client.Get(path, headers);
  }
  /// Samples of a scrape, by name with labels.
  std::map<std::string, double> scrape() const {
    const auto answer = get("/metrics");
    EXPECT_TRUE(answer && answer->status == 200);
    std::map<std::string, double> samples;
    for (const absl::string_view line : absl::StrSplit(answer ? answer->body : "", '\n', absl::SkipEmpty())) {
      if (!absl::StartsWith(line, "#")) {
        const size_t space = line.rfind(' ');
        samples[std::string(line.substr(0, space))] = std::stod(std::string(line.substr(space + 1)));
      }
    }
    return samples;
  }
  /// Counters change a moment after a job is seen to end, so this waits for them.
  std::map<std::string, double> scrapeWhen(const std::string& name, double value) const {
    std::map<std::string, double> samples = scrape();
    for (int i = 0; i < 200 && samples[name] != value; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      samples = scrape();
    }
    return samples;
  }

  Metrics metrics_;
  ServiceBench bench_;
};

TEST_F(Monitored, ProjectsAreToldApartAsFarAsThereAreFew) {
  const auto waiting = [&](const std::string& project) {
    const auto samples = scrape();
    const auto found = samples.find("tessera_project_jobs{project=\"" + project + "\",state=\"queued\"}");
    return found == samples.end() ? -1 : found->second;
  };
  (void)bench_.create(bench_.compileRequest("r1", "net", "a b"));
  EXPECT_EQ(waiting(kDefaultProject), 1);
  EXPECT_GT(scrape()["tessera_project_blob_bytes{project=\"default\"}"], 0);
  const v1::BatchUpdateBlobsRequest request = [] {
    v1::BatchUpdateBlobsRequest blob;
    blob.add_blobs()->set_data("x");
    blob.mutable_blobs(0)->mutable_digest()->set_sha256(sha256Hex("x"));
    blob.mutable_blobs(0)->mutable_digest()->set_size_bytes(1);
    return blob;
  }();
  constexpr int kProjects = 60;
  for (int i = 0; i < kProjects; ++i) {
    const std::string name = absl::StrCat("p", i);
    const auto stub = v1::BlobService::NewStub(bench_.clientChannel(bench_.newToken(name, v1::CLIENT, 0, name)));
    grpc::ClientContext context;
    v1::BatchUpdateBlobsResponse response;
    const grpc::Status status = stub->BatchUpdateBlobs(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_FALSE(response.answers(0).has_status());
  }
  int told = 0;
  double bytes = 0;
  for (const auto& [name, value] : scrape()) {
    if (absl::StartsWith(name, "tessera_project_blob_bytes{")) {
      ++told;
      bytes += absl::StrContains(name, "default") ? 0 : value;
    }
  }
  EXPECT_EQ(told, 51) << "50 and the others";
  EXPECT_EQ(bytes, kProjects) << "none is left out";
  EXPECT_EQ(waiting(kDefaultProject), 1) << "who uses most is told";
  EXPECT_EQ(waiting("(others)"), 0);
}

TEST_F(Monitored, WorkIsCountedWhereItHappens) {
  {
    const FakeWorkerLoop worker(bench_, "w");
    (void)bench_.watch(bench_.create(bench_.compileRequest("r1", "net", "a b")).id());
  }
  (void)bench_.watch(bench_.create(bench_.compileRequest("r2", "net", "a b")).id());
  const auto samples = scrapeWhen("tessera_jobs_total{kind=\"compile\",reason=\"\",state=\"succeeded\"}", 2);
  const auto at = [&](const std::string& name) {
    const auto found = samples.find(name);
    return found == samples.end() ? -1 : found->second;
  };
  EXPECT_EQ(at("tessera_jobs_total{kind=\"compile\",reason=\"\",state=\"succeeded\"}"), 2);
  EXPECT_EQ(at("tessera_task_attempts_total{end=\"succeeded\",kind=\"plan\"}"), 1);
  EXPECT_EQ(at("tessera_task_attempts_total{end=\"succeeded\",kind=\"build\"}"), 2);
  EXPECT_EQ(at("tessera_task_attempts_total{end=\"succeeded\",kind=\"assemble\"}"), 1);
  EXPECT_EQ(at("tessera_task_attempts_total{end=\"succeeded\",kind=\"execute\"}"), 0) << "0, not absent";
  EXPECT_EQ(at("tessera_task_wait_seconds_count{kind=\"build\"}"), 2);
  EXPECT_EQ(at("tessera_job_phase_seconds_count{phase=\"build\"}"), 1);
  EXPECT_EQ(at("tessera_cache_lookups_total{cache=\"artifact\",reason=\"new\",result=\"miss\"}"), 1);
  EXPECT_EQ(at("tessera_cache_lookups_total{cache=\"artifact\",reason=\"stored\",result=\"hit\"}"), 1);
  EXPECT_EQ(at("tessera_cache_lookups_total{cache=\"object\",reason=\"new\",result=\"miss\"}"), 2);
  EXPECT_EQ(at("tessera_rpcs_total{code=\"OK\",method=\"tessera.v1.JobService/CreateJob\"}"), 2);
  EXPECT_EQ(at("tessera_rpc_seconds_count{method=\"tessera.v1.JobService/CreateJob\"}"), 2);
  EXPECT_GE(at("tessera_rpcs_total{code=\"OK\",method=\"tessera.v1.JobService/WatchJob\"}"), 1) << "streams too";
  EXPECT_EQ(at("tessera_store_up"), 1);
  EXPECT_GT(at("tessera_blobs"), 0);
  EXPECT_GT(at("tessera_blob_bytes"), 0);
  EXPECT_GT(at("process_resident_memory_bytes"), 1e6);
  const double now = static_cast<double>(time(nullptr));
  EXPECT_NEAR(at("process_start_time_seconds"), now, 3600);
}

TEST_F(Monitored, TheQueueShowsWhatWaitsAndForHowLong) {
  (void)bench_.create(bench_.compileRequest("r1", "one", "a"));
  (void)bench_.create(bench_.compileRequest("r2", "two", "b"));
  auto samples = scrape();
  EXPECT_EQ(samples["tessera_queue_tasks{kind=\"plan\"}"], 2);
  EXPECT_EQ(samples["tessera_queue_tasks{kind=\"build\"}"], 0);
  EXPECT_EQ(samples["tessera_leases{kind=\"plan\"}"], 0);
  EXPECT_EQ(samples["tessera_workers_wanted{kind=\"plan\",target=\"\"}"], 2);
  ASSERT_TRUE(samples.contains("tessera_workers_wanted{kind=\"measure\",target=\"\"}")) << "0, not absent";
  EXPECT_EQ(samples["tessera_workers_wanted{kind=\"measure\",target=\"\"}"], 0);
  const double age = samples["tessera_queue_oldest_task_age_seconds{kind=\"plan\"}"];
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const double later = scrape()["tessera_queue_oldest_task_age_seconds{kind=\"plan\"}"];
  EXPECT_GE(later, age + 0.05);
  EXPECT_LT(later, age + 30);
}

TEST_F(Monitored, RefusedCallsAreSeenByTheirCode) {
  v1::ListTokensResponse tokens;
  grpc::ClientContext context;
  const auto stranger = v1::AdminService::NewStub(bench_.channel);
  EXPECT_EQ(stranger->ListTokens(&context, {}, &tokens).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const std::string name =
      "tessera_rpcs_total{code=\"PERMISSION_DENIED\",method=\"tessera.v1.AdminService/ListTokens\"}";
  EXPECT_EQ(scrapeWhen(name, 1)[name], 1);
  EXPECT_EQ(scrapeWhen("tessera_rpcs_in_progress", 0)["tessera_rpcs_in_progress"], 0);
}

TEST_F(Monitored, NamesThatCallersMakeUpAreOneName) {
  grpc::GenericStub stub(bench_.channel);
  const auto call = [&](const std::string& method) {
    grpc::ClientContext context;
    const grpc::Slice nothing;
    grpc::ByteBuffer request(&nothing, 1), response;
    std::promise<grpc::StatusCode> code;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                   [&](const grpc::Status& status) { code.set_value(status.error_code()); });
    return code.get_future().get();
  };
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(call(absl::StrCat("/x/", i)), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(call("/tessera.v1.JobService/Invented"), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(call("/grpc.health.v1.Health/Check"), grpc::StatusCode::OK);
  EXPECT_EQ(call("/tessera.v1.JobService/ListJobs"), grpc::StatusCode::OK);
  (void)scrapeWhen("tessera_rpcs_total{code=\"UNIMPLEMENTED\",method=\"unknown\"}", 101);
  auto samples = scrapeWhen("tessera_rpcs_total{code=\"OK\",method=\"tessera.v1.JobService/ListJobs\"}", 1);
  EXPECT_EQ(samples["tessera_rpcs_total{code=\"UNIMPLEMENTED\",method=\"unknown\"}"], 101);
  EXPECT_EQ(samples["tessera_rpcs_total{code=\"OK\",method=\"tessera.v1.JobService/ListJobs\"}"], 1);
  for (const auto& [name, value] : samples) {
    EXPECT_THAT(name, Not(HasSubstr("\"x/")));
    EXPECT_THAT(name, Not(HasSubstr("Invented")));
  }
}

TEST_F(Monitored, ReadyUntilItDrains) {
  const auto alive = get("/healthz");
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->status, 200);
  const auto before = get("/readyz");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->status, 200) << before->body;
  EXPECT_EQ(before->body, "store: ok\nblobs: ok\ndraining: no\n");
  bench_.server->drain();
  const auto after = get("/readyz");
  ASSERT_TRUE(after);
  EXPECT_EQ(after->status, 503);
  EXPECT_THAT(after->body, HasSubstr("draining: yes"));
  EXPECT_EQ(get("/healthz")->status, 200) << "it lives, and is to be let finish";
}

TEST_F(Monitored, NothingElseIsServed) {
  EXPECT_EQ(get("/")->status, 404);
  EXPECT_EQ(get("/v1/jobs")->status, 404);
  EXPECT_EQ(get("/metrics", {{"Host", "evil.example"}})->status, 403);
  httplib::Client client("http://" + bench_.server->metricsAddresses().front());
  const auto posted = client.Post("/metrics", {{"X-Tessera", "1"}}, "{}", "application/json");
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->status, 501);
}

class MonitoredFromOutside : public Monitored {
 protected:
  MonitoredFromOutside() : Monitored(true) {}
};

TEST_F(MonitoredFromOutside, MetricsAskForACredentialHealthDoesNot) {
  EXPECT_EQ(get("/healthz")->status, 200);
  EXPECT_EQ(get("/readyz")->status, 200);
  EXPECT_EQ(get("/metrics")->status, 401);
  const auto with = [&](const std::string& token) {
    return get("/metrics", {{"Authorization", absl::StrCat("Bearer ", token)}})->status;
  };
  EXPECT_EQ(with("guess"), 401);
  EXPECT_EQ(with(bench_.workerToken()), 403) << "workers do not look";
  EXPECT_EQ(with(bench_.newToken("prometheus", v1::READER)), 200);
}

}  // namespace
}  // namespace tessera::server
