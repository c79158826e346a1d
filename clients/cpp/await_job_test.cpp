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

}  // namespace
}  // namespace tessera::client
