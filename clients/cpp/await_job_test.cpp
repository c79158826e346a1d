// Tests of awaitJob and of retries. A stream that hangs (dead connection, stopped server) ends at its deadline, and the
// next stream resumes after the last event received.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "clients/cpp/compile.h"
#include "tessera/v1/job.grpc.pb.h"

namespace tessera::client {
namespace {

using std::chrono::milliseconds;

class Hanging : public v1::JobService::Service {
 public:
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    const int call = ++calls;
    cursors.push_back(request->cursor());
    v1::WatchJobResponse response;
    response.mutable_event()->set_sequence(request->cursor() + 1);
    writer->Write(response);
    while (call <= 2 && !context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::GetJobResponse* response) override {
    response->mutable_job()->set_id(request->id());
    response->mutable_job()->set_state(v1::Job::SUCCEEDED);
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0;
  std::vector<int64_t> cursors;  // one call at a time writes it
};

TEST(AwaitJob, AStreamThatHangsIsAskedAnewBehindTheLastEvent) {
  Hanging hanging;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&hanging);
  const auto server = builder.BuildAndStart();
  Channel channel("127.0.0.1:" + std::to_string(port));
  std::vector<int64_t> heard;
  const auto job = awaitJob(channel, "job", [&](const v1::JobEvent& event) { heard.push_back(event.sequence()); },
                            {.stream = milliseconds(300)});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->id(), "job");
  EXPECT_EQ(hanging.calls, 3);
  EXPECT_EQ(heard, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(hanging.cursors, (std::vector<int64_t>{0, 1, 2}));
}

TEST(AwaitJob, AServerThatHasEndedForGoodIsNotWaitedFor) {
  Channel channel("127.0.0.1:1");  // nothing listens there
  std::atomic<int> asked = 0;
  channel.setServerEndedCheck(
      [&] { return ++asked < 3 ? absl::OkStatus() : absl::FailedPreconditionError("of different builds"); });
  const auto start = std::chrono::steady_clock::now();
  const auto job = awaitJob(channel, "job", nullptr, {.patience = std::chrono::minutes(10)});
  EXPECT_EQ(job.status().message(), "of different builds");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(AwaitJob, NorByACall) {
  Channel channel("127.0.0.1:1");
  channel.setServerEndedCheck([] { return absl::FailedPreconditionError("of different builds"); });
  const auto job = channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, v1::GetJobRequest());
  EXPECT_EQ(job.status().message(), "of different builds");
  EXPECT_EQ(channel.waitReady(milliseconds(10)).message(), "of different builds");
}

/// Accepts a job and never starts it. Its worker list changes with each request.
class Queueing : public v1::JobService::Service {
 public:
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    v1::WatchJobResponse response;
    response.mutable_event()->set_sequence(1);
    response.mutable_event()->mutable_state()->set_state(begun ? v1::Job::RUNNING : v1::Job::QUEUED);
    if (request->cursor() == 0) writer->Write(response);
    response.mutable_event()->mutable_attempt()->mutable_failure()->set_message("the disk is full");
    if (request->cursor() == 0 && begun) writer->Write(response);
    while (!over && !context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse* response) override {
    response->mutable_job()->set_state(v1::Job::CANCELLED);
    return grpc::Status::OK;
  }
  std::atomic<bool> over = false;
  bool begun = false;  ///< the first attempt has failed
};

class Fleet : public v1::FleetService::Service {
 public:
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    if (++asked >= 2) response->add_workers()->set_state(v1::Worker::BUSY);
    return grpc::Status::OK;
  }
  std::atomic<int> asked = 0;
};

class Waiting : public testing::TestWithParam<bool> {};

TEST_P(Waiting, SaysWhatForAndAgainWhenThatChanges) {
  Queueing jobs;
  jobs.begun = GetParam();
  Fleet fleet;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&jobs);
  builder.RegisterService(&fleet);
  const auto server = builder.BuildAndStart();
  Channel channel("127.0.0.1:" + std::to_string(port));
  std::vector<std::string> heard;
  AwaitOptions options;
  options.first_look = milliseconds(50);
  options.rarest_look = milliseconds(100);
  options.on_waiting = [&](const std::string& reason) {
    heard.push_back(reason);
    jobs.over = heard.size() == 2;
  };
  const auto job = awaitJob(channel, "job", nullptr, options);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].substr(0, 28), "a worker: none is connected;");
  EXPECT_EQ(heard[1], "a worker with a free slot: 1 busy");
}

INSTANTIATE_TEST_SUITE_P(AwaitJob, Waiting, testing::Bool(),
                         [](const auto& info) { return info.param ? "ToBeTriedAgain" : "ToBegin"; });

/// Accepts calls and never answers.
class StandingStill : public v1::JobService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest*, v1::GetJobResponse*) override {
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::CANCELLED;
  }
};

TEST(Silence, OfWhoeverTakesConnectionsIsNoMissingServer) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Channel channel("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  const std::string said(channel.waitReady(milliseconds(300)).message());
  close(listener);
  EXPECT_NE(said.find("stands still"), std::string::npos) << said;
  EXPECT_EQ(said.find("start one"), std::string::npos) << said;
}

TEST(Silence, IsToldWhileACallWaitsAndNamedWhenItEnds) {
  StandingStill jobs;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&jobs);
  const auto server = builder.BuildAndStart();
  Channel channel("127.0.0.1:" + std::to_string(port));
  std::vector<milliseconds> told;
  channel.setUnreachableCallback([&](milliseconds left) { told.push_back(left); });
  ASSERT_TRUE(channel.waitReady(std::chrono::seconds(5)).ok());
  const auto job = channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, v1::GetJobRequest(),
                                {.timeout = milliseconds(4'000)});
  EXPECT_TRUE(absl::IsUnavailable(job.status())) << job.status();
  EXPECT_NE(job.status().message().find("did not answer within 4s"), std::string::npos) << job.status();
  EXPECT_EQ(told, std::vector<milliseconds>{milliseconds(1'000)});
  const auto quick =
      channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, v1::GetJobRequest(), {.timeout = milliseconds(100)});
  EXPECT_FALSE(quick.ok());
  EXPECT_EQ(told.size(), 1u) << "a short silence is none";
}

/// A service that can be stopped and restarted on the same port.
class Restarting {
 public:
  Restarting() { start(); }
  void start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&jobs);
    server = builder.BuildAndStart();
  }
  void stop() { server->Shutdown(std::chrono::system_clock::now()); }

  int port = 0;
  Hanging jobs;
  std::unique_ptr<grpc::Server> server;
};

v1::GetJobRequest someJob() {
  v1::GetJobRequest request;
  request.set_id("job");
  return request;
}

TEST(RetryState, ACallOutlastsARestartOfAServerThatAnsweredBefore) {
  Restarting service;
  Channel channel("127.0.0.1:" + std::to_string(service.port));
  std::atomic<int> told = 0;
  channel.setUnreachableCallback([&](milliseconds patience) {
    ++told;
    EXPECT_EQ(patience, kReconnectTimeout);
  });
  ASSERT_TRUE(channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob()).ok());
  service.stop();
  std::thread restart([&] {
    std::this_thread::sleep_for(milliseconds(2500));
    service.start();
  });
  const auto job = channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob());
  restart.join();
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(told, 1);
}

TEST(RetryState, ItEndsAndIsSaid) {
  Restarting service;
  Channel channel("127.0.0.1:" + std::to_string(service.port));
  ASSERT_TRUE(channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob()).ok());
  service.stop();
  const auto start = std::chrono::steady_clock::now();
  const auto job =
      channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob(), {.patience = milliseconds(1500)});
  EXPECT_TRUE(absl::IsUnavailable(job.status())) << job.status();
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GT(waited, milliseconds(500));
  EXPECT_LT(waited, std::chrono::seconds(20));
}

TEST(RetryState, AServerThatNeverAnsweredIsNotWaitedFor) {
  Channel channel("127.0.0.1:1");
  std::atomic<int> told = 0;
  channel.setUnreachableCallback([&](milliseconds) { ++told; });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsUnavailable(channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob()).status()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(told, 0);
}

TEST(RetryState, ACallThatMustNotRepeatDoesNot) {
  Restarting service;
  Channel channel("127.0.0.1:" + std::to_string(service.port));
  ASSERT_TRUE(channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob()).ok());
  service.stop();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, someJob(), {.attempts = 1}).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(RetryState, AWatchBeginsToWaitWhenItsStreamBreaks) {
  Restarting service;
  Channel channel("127.0.0.1:" + std::to_string(service.port));
  std::thread restart([&] {
    std::this_thread::sleep_for(milliseconds(2500));  // longer than the patience, without an event
    service.stop();
    std::this_thread::sleep_for(milliseconds(300));
    service.start();
    service.jobs.calls = 2;
  });
  const auto job = awaitJob(channel, "job", nullptr, {.patience = milliseconds(2000)});
  restart.join();
  EXPECT_TRUE(job.ok()) << job.status();
}

}  // namespace
}  // namespace tessera::client
