// How a watch handles quotas, silence and absence of a server. The test server rejects calls and stays silent on
// command.
#include "clients/cpp/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "proto/messages/failure.h"
#include "tessera/v1/failure.pb.h"

namespace tessera::client {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class Moody : public v1::ArtifactVersionService::Service {
 public:
  grpc::Status WatchArtifact(grpc::ServerContext* context, const v1::WatchArtifactRequest* request,
                             grpc::ServerWriter<v1::WatchArtifactResponse>* writer) override {
    ++calls;
    if (refusals > 0) {
      --refusals;
      return refusal();
    }
    writer->SendInitialMetadata();
    for (int number = request->cursor() + 1; number <= versions; ++number) {
      v1::WatchArtifactResponse response;
      response.mutable_version()->set_number(number);
      writer->Write(response);
    }
    while (silent && !context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::OK;
  }
  static grpc::Status refusal() {
    v1::Failure failure;
    failure.set_reason(v1::Failure::QUOTA_EXCEEDED);
    failure.set_message("too many calls");
    failure.set_retry_after_us(300'000);
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many calls",
            toRpcStatus(failureStatus(failure)).SerializeAsString()};
  }

  std::atomic<int> calls = 0, refusals = 0, versions = 0;
  std::atomic<bool> silent = false;
};

class Watching : public testing::Test {
 protected:
  Watching() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&moody_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  absl::Status watch(milliseconds patience = milliseconds(60'000)) {
    Channel channel(address_);
    const auto begun = Clock::now();
    absl::Status status = watchVersions(
        channel, "job", stop_,
        [this](const v1::ArtifactVersion& version) {
          heard_.push_back(version.number());
          return std::exchange(answer_, absl::OkStatus());
        },
        patience);
    took_ = std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    return status;
  }

  Moody moody_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::atomic<bool> stop_ = false;
  std::vector<int> heard_;
  absl::Status answer_;
  milliseconds took_{0};
};

TEST_F(Watching, AQuotaIsWaitedFor) {
  moody_.refusals = 2;
  moody_.versions = 1;
  EXPECT_TRUE(watch(milliseconds(400)).ok()) << "which is no absence";
  EXPECT_THAT(heard_, ElementsAre(1));
  EXPECT_EQ(moody_.calls, 3);
  EXPECT_GE(took_, milliseconds(600)) << "as long as was said";
}

TEST_F(Watching, AVersionThatMetAQuotaIsHeardOfAgain) {
  moody_.versions = 2;
  answer_ = fromGrpc(Moody::refusal());
  EXPECT_TRUE(watch().ok());
  EXPECT_THAT(heard_, ElementsAre(1, 1, 2));
  heard_.clear();
  answer_ = absl::InternalError("broken");
  EXPECT_EQ(watch(), absl::InternalError("broken"));
  EXPECT_THAT(heard_, ElementsAre(1));
}

TEST_F(Watching, ASilentJobCostsOneCallAndStopsAtOnce) {
  moody_.silent = true;
  std::thread stopper([this] {
    std::this_thread::sleep_for(milliseconds(2500));
    stop_ = true;
  });
  EXPECT_TRUE(watch().ok());
  stopper.join();
  EXPECT_EQ(moody_.calls, 1);
  EXPECT_LT(took_, milliseconds(3500));
}

TEST_F(Watching, ALivingServerIsNotGivenUpThoughThereBeNoVersions) {
  moody_.silent = true;
  std::thread stopper([this] {
    std::this_thread::sleep_for(milliseconds(2000));
    stop_ = true;
  });
  EXPECT_TRUE(watch(milliseconds(500)).ok());
  stopper.join();
  EXPECT_GT(moody_.calls, 1);
}

TEST_F(Watching, WhoNeverAnswersIsGivenUp) {
  // A port that accepts connections and never answers.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof where;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&where), length), 0);
  ASSERT_EQ(listen(listener, 16), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&where), &length), 0);
  address_ = "127.0.0.1:" + std::to_string(ntohs(where.sin_port));
  absl::Status status = watch(milliseconds(1000));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("away for too long"));
  EXPECT_LT(took_, milliseconds(5000));
  close(listener);
  // A port without a listener.
  status = watch(milliseconds(1000));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_LT(took_, milliseconds(5000));
}

}  // namespace
}  // namespace tessera::client
