// A watch of a job whose stream hangs, as one does behind a wire that went dead or a server that stands still: it is
// ended by its deadline, and the next one goes on behind the last event.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
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
  std::vector<int64_t> cursors;  // of one call at a time
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
  const auto job = awaitJob(
      channel, "job", [&](const v1::JobEvent& event) { heard.push_back(event.sequence()); }, std::chrono::minutes(2),
      milliseconds(300));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->id(), "job");
  EXPECT_EQ(hanging.calls, 3);
  EXPECT_EQ(heard, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(hanging.cursors, (std::vector<int64_t>{0, 1, 2}));
}

TEST(AwaitJob, AServerThatHasEndedForGoodIsNotWaitedFor) {
  Channel channel("127.0.0.1:1");  // nobody's
  std::atomic<int> asked = 0;
  channel.setEnded(
      [&] { return ++asked < 3 ? absl::OkStatus() : absl::FailedPreconditionError("of different builds"); });
  const auto start = std::chrono::steady_clock::now();
  const auto job = awaitJob(channel, "job", nullptr, std::chrono::minutes(10), milliseconds(300'000));
  EXPECT_EQ(job.status().message(), "of different builds");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(AwaitJob, NorByACall) {
  Channel channel("127.0.0.1:1");
  channel.setEnded([] { return absl::FailedPreconditionError("of different builds"); });
  const auto job = channel.call(channel.jobs(), &v1::JobService::Stub::GetJob, v1::GetJobRequest());
  EXPECT_EQ(job.status().message(), "of different builds");
  EXPECT_EQ(channel.waitReady(milliseconds(10)).message(), "of different builds");
}

}  // namespace
}  // namespace tessera::client
