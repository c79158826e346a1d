#include "server/gateway/transcoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "tessera/v1/blob_service.pb.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server::gateway {
namespace {

using testing::HasSubstr;

template <typename Request>
absl::StatusOr<Request> asked(const char* verb, const char* path, const Parameters& query,
                              const std::string& body = "") {
  TESSERA_ASSIGN_OR_RETURN(auto request, requestOf(*match(verb, path), query, body));
  return dynamic_cast<Request&>(*request);
}

TEST(Transcoding, ParametersGoByEitherName) {
  for (const char* name : {"pageSize", "page_size"}) {
    const auto request = asked<v1::ListJobsRequest>("GET", "/v1/jobs", {{name, "7"}, {"filter", "state = FAILED"}});
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->page_size(), 7);
    EXPECT_EQ(request->filter(), "state = FAILED");
  }
}

TEST(Transcoding, NestedFieldsGoByDots) {
  const auto request = asked<v1::QueryUploadRequest>("GET", "/v1/blobs/00ff:queryUpload", {{"digest.sizeBytes", "12"}});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->digest().sha256(), "00ff");
  EXPECT_EQ(request->digest().size_bytes(), 12);
}

TEST(Transcoding, ThePathOutweighsTheBody) {
  const auto request = asked<v1::CancelJobRequest>("POST", "/v1/jobs/mine:cancel", {}, R"({"id": "other"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->id(), "mine");
}

TEST(Transcoding, ErrorsNameTheFieldAndWhatIsAccepted) {
  const std::pair<Parameters, const char*> wrong[] = {{{{"pagesize", "7"}}, "pageSize, pageToken, filter, orderBy"},
                                                      {{{"pageSize", "many"}}, "int32"},
                                                      {{{"pageSize", "99999999999"}}, "int32"},
                                                      {{{"filter.x", "1"}}, "string"},
                                                      {{{"", "1"}}, "pageSize"}};
  for (const auto& [query, accepted] : wrong) {
    const auto request = asked<v1::ListJobsRequest>("GET", "/v1/jobs", query);
    EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << query.begin()->first;
    EXPECT_THAT(failureOf(request.status()).accepted(), HasSubstr(accepted));
  }
  const std::string deep = std::string(20'000, '[') + std::string(20'000, ']');
  for (const std::string& body : {std::string("{"), std::string("[]"), std::string(R"({"compile": 7})"),
                                  std::string(R"({"nothing": 1})"), R"({"compile":{"inputShapes":)" + deep + "}}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(asked<v1::CreateJobRequest>("POST", "/v1/jobs", {}, body).status()))
        << body.substr(0, 40);
  }
}

TEST(Transcoding, ManyEmptyMessagesAreNotMade) {
  std::string many = R"({"digests":[{})";
  for (int i = 0; i < 300'000; ++i) {
    many += ",{}";
  }
  const auto request = asked<v1::FindMissingBlobsRequest>("POST", "/v1/blobs:findMissing", {}, many + "]}");
  EXPECT_THAT(failureOf(request.status()).accepted(), HasSubstr("200000"));
  const std::string text = R"({"id": ")" + std::string(300'000, ',') + R"("})";
  EXPECT_TRUE(asked<v1::CancelJobRequest>("POST", "/v1/jobs/mine:cancel", {}, text).ok()) << "of text it may be full";
}

TEST(Transcoding, ErrorsHaveTheShapeOfGoogleRpcStatus) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  failure.set_message("no such target: \xff");
  failure.set_fix("name another");
  const auto json = nlohmann::json::parse(errorJson(failureStatus(failure)))["error"];
  EXPECT_EQ(json["code"], 400);
  EXPECT_EQ(json["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(httpStatus(absl::StatusCode::kUnauthenticated), 401);
  EXPECT_EQ(httpStatus(absl::StatusCode::kDataLoss), 500);
  v1::Failure whole;
  whole.set_reason(v1::Failure::INVALID_TARGET);
  whole.set_fix("name another");
  const auto detail = nlohmann::json::parse(errorJson(failureStatus(whole)))["error"]["details"][0];
  EXPECT_EQ(detail["@type"], "type.googleapis.com/tessera.v1.Failure");
  EXPECT_EQ(detail["reason"], "INVALID_TARGET");
  EXPECT_EQ(detail["fix"], "name another");
}

}  // namespace
}  // namespace tessera::server::gateway
