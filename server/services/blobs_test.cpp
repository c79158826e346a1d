// Blobs by digest: uploaded whole, in parts or in batches; downloaded, rejected, stalled, deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

TEST(Blobs, UploadResumeAndDownload) {
  ServiceBench bench;
  std::string bytes;
  for (int i = 0; bytes.size() < (5 << 19); ++i) {
    bytes += std::to_string(i);
  }
  const size_t half = bytes.size() / 2;
  {
    grpc::ClientContext context;
    v1::UploadBlobResponse response;
    auto writer = bench.blobs->UploadBlob(&context, &response);
    v1::UploadBlobRequest request;
    *request.mutable_digest() = digestOf(bytes);
    for (size_t at = 0; at < half; at += 1 << 18) {
      request.set_data(bytes.substr(at, 1 << 18));
      ASSERT_TRUE(writer->Write(request));
      request.Clear();
    }
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  v1::QueryUploadRequest query;
  *query.mutable_digest() = digestOf(bytes);
  grpc::Status status;
  v1::UploadBlobResponse uploaded;
  {
    grpc::ClientContext asking;
    v1::QueryUploadResponse position;
    ASSERT_TRUE(bench.blobs->QueryUpload(&asking, query, &position).ok());
    EXPECT_FALSE(position.complete());
    EXPECT_LT(position.committed_bytes(), static_cast<int64_t>(bytes.size()));
    grpc::ClientContext context;
    auto writer = bench.blobs->UploadBlob(&context, &uploaded);
    v1::UploadBlobRequest request;
    *request.mutable_digest() = digestOf(bytes);
    request.set_offset(position.committed_bytes());
    for (auto at = static_cast<size_t>(position.committed_bytes()); at < bytes.size(); at += 1 << 20) {
      request.set_data(bytes.substr(at, 1 << 20));
      if (!writer->Write(request)) {
        break;
      }
      request.Clear();
    }
    writer->WritesDone();
    status = writer->Finish();
  }
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(uploaded.existed());

  v1::DownloadBlobRequest request;
  request.set_sha256(digestOf(bytes).sha256());
  std::string got;
  ASSERT_TRUE(download(*bench.blobs, request, got).ok());
  EXPECT_EQ(got, bytes);
  request.set_offset(1000);
  request.set_limit(static_cast<int64_t>(half));
  ASSERT_TRUE(download(*bench.blobs, request, got).ok());
  EXPECT_EQ(got, bytes.substr(1000, half));
  request.set_offset(static_cast<int64_t>(bytes.size()) + 1);
  EXPECT_EQ(download(*bench.blobs, request, got).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(upload(*bench.blobs, "").ok()) << "the empty blob is a blob";
}

TEST(Blobs, ManySmallOnesComeInOneCallAndAreAnsweredEach) {
  ServiceBench bench;
  v1::BatchUpdateBlobsRequest request;
  const auto add = [&](const std::string& data, const std::string& sha256, int64_t size) {
    auto* blob = request.add_blobs();
    blob->set_data(data);
    blob->mutable_digest()->set_sha256(sha256);
    blob->mutable_digest()->set_size_bytes(size);
  };
  add("first", sha256Hex("first"), 5);
  add("changed", sha256Hex("as announced"), 7);
  add("short", sha256Hex("short"), 6);
  add("", sha256Hex(""), 0);
  add("first", "no digest", 5);
  const auto call = [&](v1::BatchUpdateBlobsResponse& response) {
    grpc::ClientContext context;
    response.Clear();
    return bench.blobs->BatchUpdateBlobs(&context, request, &response);
  };
  v1::BatchUpdateBlobsResponse response;
  ASSERT_TRUE(call(response).ok());
  ASSERT_EQ(response.answers_size(), 5);
  const int codes[] = {0, grpc::StatusCode::DATA_LOSS, grpc::StatusCode::INVALID_ARGUMENT, 0,
                       grpc::StatusCode::INVALID_ARGUMENT};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(response.answers(i).status().code(), codes[i]) << i << response.answers(i).DebugString();
    EXPECT_EQ(response.answers(i).digest().sha256(), request.blobs(i).digest().sha256());
    EXPECT_FALSE(response.answers(i).existed());
  }
  EXPECT_EQ(failureInDetails(response.answers(2).status().SerializeAsString())->attribute(), "digest.size_bytes");
  v1::FindMissingBlobsRequest find;
  for (int i = 0; i < 4; ++i) *find.add_digests() = request.blobs(i).digest();
  v1::FindMissingBlobsResponse missing;
  grpc::ClientContext finding;
  ASSERT_TRUE(bench.blobs->FindMissingBlobs(&finding, find, &missing).ok());
  ASSERT_EQ(missing.missing_size(), 2);
  EXPECT_EQ(missing.missing(0).sha256(), sha256Hex("as announced"));
  ASSERT_TRUE(call(response).ok());
  EXPECT_TRUE(response.answers(0).existed());
  request.clear_blobs();
  add(std::string((3 << 20) + 1, 'x'), std::string(64, 'a'), 1);
  EXPECT_EQ(call(response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(Blobs, WrongContentIsDataLoss) {
  ServiceBench bench;
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto writer = bench.blobs->UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  *request.mutable_digest() = digestOf("what was promised");
  request.set_data("what was sent !!!");
  ASSERT_TRUE(writer->Write(request));
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::DATA_LOSS);
  grpc::ClientContext asking;
  v1::FindMissingBlobsRequest find;
  *find.add_digests() = digestOf("what was promised");
  v1::FindMissingBlobsResponse found;
  ASSERT_TRUE(bench.blobs->FindMissingBlobs(&asking, find, &found).ok());
  EXPECT_EQ(found.missing_size(), 1);
  v1::DownloadBlobRequest absent;
  absent.set_sha256(digestOf("what was promised").sha256());
  std::string got;
  EXPECT_EQ(download(*bench.blobs, absent, got).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(Blobs, AnIdleUploadHoldsNobodyUp) {
  ServiceBench bench;
  const std::string bytes(3 << 20, 'x');
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto idle = bench.blobs->UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  *request.mutable_digest() = digestOf(bytes);
  request.set_data(bytes.substr(0, 1 << 20));
  ASSERT_TRUE(idle->Write(request));
  v1::QueryUploadRequest query;
  *query.mutable_digest() = digestOf(bytes);
  v1::QueryUploadResponse position;
  do {
    grpc::ClientContext asking;
    ASSERT_TRUE(bench.blobs->QueryUpload(&asking, query, &position).ok());
  } while (position.committed_bytes() < 1 << 20);
  const grpc::Status another = upload(*bench.blobs, bytes);
  ASSERT_TRUE(another.ok()) << another.error_message();
  request.Clear();
  request.set_data(bytes.substr(1 << 20, 1 << 20));
  ASSERT_TRUE(idle->Write(request));
  ASSERT_TRUE(idle->Write(request));
  idle->WritesDone();
  const grpc::Status late = idle->Finish();
  EXPECT_TRUE(late.ok()) << late.error_message();
}

TEST(Blobs, AnUploadThatFallsSilentEnds) {
  ServerOptions options;
  options.limits.upload_silence = std::chrono::milliseconds(100);
  ServiceBench bench(options);
  const std::string bytes(100'000, 'x');
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto writer = bench.blobs->UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  *request.mutable_digest() = digestOf(bytes);
  ASSERT_TRUE(writer->Write(request));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << "without WritesDone";
  const grpc::Status another = upload(*bench.blobs, bytes);
  EXPECT_TRUE(another.ok()) << another.error_message();
}

TEST(Blobs, TheSizeOfABlobIsItsFiles) {
  ServiceBench bench;
  const std::string bytes = "content";
  ASSERT_TRUE(upload(*bench.blobs, bytes).ok());
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  auto writer = bench.blobs->UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  *request.mutable_digest() = digestOf(bytes);
  request.mutable_digest()->set_size_bytes(8);
  writer->Write(request);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("size_bytes"));
}

TEST(Blobs, OneWhoseFileIsGoneIsMissingOnceSomebodyHasReadIt) {
  ServiceBench bench;
  const std::string bytes(100'000, 'c');
  ASSERT_TRUE(upload(*bench.blobs, bytes).ok());
  const auto isMissing = [&] {
    grpc::ClientContext context;
    v1::FindMissingBlobsRequest request;
    *request.add_digests() = digestOf(bytes);
    v1::FindMissingBlobsResponse response;
    EXPECT_TRUE(bench.blobs->FindMissingBlobs(&context, request, &response).ok());
    return response.missing_size() == 1;
  };
  const auto fetch = [&] {
    v1::DownloadBlobRequest request;
    request.set_sha256(digestOf(bytes).sha256());
    std::string got;
    const grpc::Status status = download(*bench.blobs, request, got);
    EXPECT_TRUE(!status.ok() || got == bytes);
    return status;
  };
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bench.folder() + "/blobs")) {
    if (entry.path().filename() == digestOf(bytes).sha256()) std::filesystem::remove(entry.path());
  }
  EXPECT_FALSE(isMissing()) << "its row says that it is there";
  const grpc::Status lost = fetch();
  EXPECT_EQ(lost.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(lost.error_message(), HasSubstr("were lost on the server's disk"));
  EXPECT_TRUE(isMissing());
  EXPECT_EQ(fetch().error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(upload(*bench.blobs, bytes).ok());
  EXPECT_FALSE(isMissing());
  EXPECT_TRUE(fetch().ok());
}

}  // namespace
}  // namespace tessera::server
