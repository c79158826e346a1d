// The calls a client makes before it creates a job: it asks about files at most once, and only about files that the
// service is not known to have.
#include "clients/cpp/compile.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

/// A service that stores blobs and accepts every job whose blobs it has.
class Keeper : public v1::BlobService::Service, public v1::JobService::Service {
 public:
  Keeper() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::BlobService::Service*>(this));
    builder.RegisterService(static_cast<v1::JobService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status FindMissingBlobs(grpc::ServerContext*, const v1::FindMissingBlobsRequest* request,
                                v1::FindMissingBlobsResponse* response) override {
    ++questions;
    for (const v1::Digest& digest : request->digests()) {
      if (!kept.contains(digest.sha256())) *response->add_missing() = digest;
    }
    return grpc::Status::OK;
  }
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse* response) override {
    ++uploads;
    if (--others_upload >= 0) return {grpc::StatusCode::ABORTED, "another upload is going on"};
    if (--outdated_offsets >= 0) return {grpc::StatusCode::FAILED_PRECONDITION, "upload at offset 7; accepted: 0"};
    v1::UploadBlobRequest message;
    while (reader->Read(&message)) {
      if (message.has_digest()) *response->mutable_digest() = message.digest();
    }
    if (!forgetful) kept.insert(response->digest().sha256());
    return grpc::Status::OK;
  }
  grpc::Status QueryUpload(grpc::ServerContext*, const v1::QueryUploadRequest*, v1::QueryUploadResponse*) override {
    ++resumptions;
    return grpc::Status::OK;  // no bytes received yet
  }
  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::CreateJobResponse* response) override {
    ++creations;
    request_ids.insert(request->request_id());
    for (const v1::EnclosedFile& file : request->files()) {
      ++enclosed;
      if (full) {
        const absl::Status none = failureStatus(v1::Failure::LIMIT_EXCEEDED, "no place");
        return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no place", toRpcStatus(none).SerializeAsString()};
      }
      if (!old) kept.insert(file.digest().sha256());
    }
    if (!kept.contains(request->compile().model().sha256())) {
      const absl::Status missing = failureStatus(v1::Failure::MISSING_BLOB, "it is not here");
      return {grpc::StatusCode::NOT_FOUND, "it is not here", toRpcStatus(missing).SerializeAsString()};
    }
    response->mutable_job()->set_id("job");
    return grpc::Status::OK;
  }

  bool forgetful = false;    ///< deletes every upload at once
  int others_upload = 0;     ///< number of attempts that collide with another client's upload of the same blob
  int outdated_offsets = 0;  ///< number of attempts whose offset is not valid since another client's upload has ended
  std::set<std::string> kept, request_ids;
  bool full = false;  ///< rejects all uploads
  bool old = false;   ///< a release without support for enclosed files
  int enclosed = 0, questions = 0, resumptions = 0, uploads = 0, creations = 0;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class SubmitCompile : public testing::Test {
 public:
  SubmitCompile() {
    request_.model_path = testing::TempDir() + "/submit-" + std::to_string(getpid());
    std::ofstream(request_.model_path) << "a model" << std::string(kMaxEnclosedBytes, '.');
  }
  ~SubmitCompile() override { std::filesystem::remove(request_.model_path); }

  Keeper keeper_;
  Channel channel_{keeper_.address()};
  CompileRequest request_;
};

TEST_F(SubmitCompile, AsksAboutAFileOnce) {
  for (int i = 0; i < 3; ++i) {
    const auto outcome = submitCompile(channel_, request_, {});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->job.id(), "job");
  }
  EXPECT_EQ(keeper_.questions, 1);
  EXPECT_EQ(keeper_.resumptions, 0) << "it is one message";
  EXPECT_EQ(keeper_.uploads, 1);
  EXPECT_EQ(keeper_.creations, 3);
  std::ofstream(request_.model_path) << "another model" << std::string(kMaxEnclosedBytes, '.');
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.questions, 2);
  Channel another(keeper_.address());
  ASSERT_TRUE(submitCompile(another, request_, {}).ok());
  EXPECT_EQ(keeper_.questions, 3) << "another client does not know";
  EXPECT_EQ(keeper_.uploads, 2);
}

TEST_F(SubmitCompile, AnUploadWhoseOffsetIsOutdatedAsksAgain) {
  keeper_.outdated_offsets = 1;
  const auto outcome = submitCompile(channel_, request_, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(keeper_.uploads, 2);
  EXPECT_EQ(keeper_.resumptions, 1);
}

TEST_F(SubmitCompile, EnclosesSmallFiles) {
  std::ofstream(request_.model_path) << "a small model";
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.enclosed, 1) << "it is known then";
  EXPECT_EQ(keeper_.questions + keeper_.uploads, 0);
  EXPECT_EQ(keeper_.creations, 2);
  const std::string large = request_.model_path + ".weights";
  std::ofstream(large) << std::string(kMaxEnclosedBytes, '.');
  request_.external_data["weights"] = large;
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.questions, 1) << "beside a large one it is asked about";
  EXPECT_EQ(keeper_.uploads, 1);
  std::filesystem::remove(large);
  keeper_.full = true;
  request_.external_data.clear();
  std::ofstream(request_.model_path) << "another";
  const auto refused = submitCompile(channel_, request_, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(failureOf(refused.status()).reason(), v1::Failure::LIMIT_EXCEEDED) << refused.status();
  keeper_.full = false;
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.enclosed, 3) << "what was refused is not known";
}

TEST_F(SubmitCompile, UploadsWhatAnOldServerDoesNotTakeWithTheRequest) {
  keeper_.old = true;
  std::ofstream(request_.model_path) << "a small model";
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.uploads, 1);
  EXPECT_EQ(keeper_.request_ids.size(), 1U);
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.uploads, 1) << "it is known";
}

TEST_F(SubmitCompile, SendsAgainWhatWasCollectedSince) {
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  keeper_.kept.clear();
  keeper_.request_ids.clear();
  const auto outcome = submitCompile(channel_, request_, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(keeper_.creations, 3) << "one was refused";
  EXPECT_EQ(keeper_.request_ids.size(), 1U) << "of one request";
  EXPECT_EQ(keeper_.questions, 2);
  EXPECT_EQ(keeper_.uploads, 2);
  ASSERT_TRUE(submitCompile(channel_, request_, {}).ok());
  EXPECT_EQ(keeper_.questions, 2) << "it is known again";
}

TEST_F(SubmitCompile, WaitsWhileSomebodyElseSendsTheSame) {
  keeper_.others_upload = 5;  // three seconds: more attempts than an unanswered call gets
  const auto outcome = submitCompile(channel_, request_, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(keeper_.uploads, 6);
}

TEST_F(SubmitCompile, ARefusalOfWhatWasJustSentIsTold) {
  keeper_.forgetful = true;
  const auto outcome = submitCompile(channel_, request_, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(failureOf(outcome.status()).reason(), v1::Failure::MISSING_BLOB);
  EXPECT_EQ(keeper_.creations, 1);
}

}  // namespace
}  // namespace tessera::client
