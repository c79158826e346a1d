// Versions of a tune job's artifact, by gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/service_bench.h"
#include "tessera/v1/artifact_versions.grpc.pb.h"

namespace tessera::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Service = v1::ArtifactVersionService;

class VersionCalls : public testing::Test {
 protected:
  /// A finished tune job with two versions.
  VersionCalls() : versions_(bench_.channel) {
    v1::CreateJobRequest request;
    request.set_request_id("t");
    *request.mutable_tune()->mutable_compile() = bench_.compileRequest("c", "net", "a").compile();
    request.mutable_tune()->set_trials(6);
    id_ = bench_.create(request).id();
    FakeWorkerLoop worker(bench_, "w", [](const std::string&, int number, v1::MeasureTaskResult& result) {
      result.set_candidate_ms(0, number == 2 ? 0.5 : 1.5);
    });
    bench_.watch(id_);
    EXPECT_EQ(bench_.job(id_).state(), v1::Job::SUCCEEDED) << bench_.job(id_).failure().message();
  }

  grpc::Status list(int page_size, const std::string& page_token, v1::ListArtifactVersionsResponse& page) {
    grpc::ClientContext context;
    v1::ListArtifactVersionsRequest request;
    request.set_job_id(id_);
    request.set_page_size(page_size);
    request.set_page_token(page_token);
    return versions_.ListArtifactVersions(&context, request, &page);
  }
  void choose(int number) {
    grpc::ClientContext context;
    v1::ChooseArtifactVersionRequest request;
    request.set_job_id(id_);
    request.set_number(number);
    v1::ChooseArtifactVersionResponse response;
    const grpc::Status status = versions_.ChooseArtifactVersion(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  std::vector<int> watched(int cursor, bool newest_only) {
    grpc::ClientContext context;
    v1::WatchArtifactRequest request;
    request.set_job_id(id_);
    request.set_cursor(cursor);
    request.set_newest_only(newest_only);
    const auto reader = versions_.WatchArtifact(&context, request);
    std::vector<int> numbers;
    for (v1::WatchArtifactResponse response; reader->Read(&response);) numbers.push_back(response.version().number());
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return numbers;
  }

  ServiceBench bench_;
  Service::Stub versions_;
  std::string id_;
};

TEST_F(VersionCalls, AListHasPages) {
  choose(1);
  std::vector<int> numbers;
  std::string token;
  do {
    v1::ListArtifactVersionsResponse page;
    ASSERT_TRUE(list(2, token, page).ok());
    EXPECT_LE(page.versions_size(), 2);
    for (const v1::ArtifactVersion& version : page.versions()) numbers.push_back(version.number());
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3));
  v1::ListArtifactVersionsResponse all;
  ASSERT_TRUE(list(0, "", all).ok());
  EXPECT_EQ(all.versions_size(), 3);
  EXPECT_THAT(all.next_page_token(), IsEmpty());
  for (const char* token : {"x", "-1", "0", "99999999999"}) {
    const grpc::Status status = list(0, token, all);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << token;
    EXPECT_THAT(status.error_message(), HasSubstr("page_token"));
  }
  EXPECT_TRUE(list(1001, "", all).ok()) << "more than a page may hold is what one holds";
  EXPECT_EQ(list(-1, "", all).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(VersionCalls, WhoOnlyWantsTheNewestHearsOfNoOther) {
  EXPECT_THAT(watched(0, false), ElementsAre(1, 2));
  EXPECT_THAT(watched(0, true), ElementsAre(2));
  EXPECT_THAT(watched(2, true), IsEmpty());
  choose(1);
  EXPECT_THAT(watched(0, false), ElementsAre(1, 2, 3));
  EXPECT_THAT(watched(1, true), ElementsAre(3));
}

}  // namespace
}  // namespace tessera::server
