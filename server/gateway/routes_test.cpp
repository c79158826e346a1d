#include "server/gateway/routes.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "tessera/v1/admin_service.pb.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/blob_service.pb.h"
#include "tessera/v1/operator_service.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/target_service.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server::gateway {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Routes, NameMethodsAndFieldsThatThereAre) {
  // Links the descriptors into the program.
  (void)v1::ListWorkersRequest::descriptor();
  (void)v1::ListTokensRequest::descriptor();
  (void)v1::ListArtifactsRequest::descriptor();
  (void)v1::QueryUploadRequest::descriptor();
  (void)v1::ListOperatorsRequest::descriptor();
  (void)v1::ListRecordsRequest::descriptor();
  (void)v1::ListTargetsRequest::descriptor();
  for (const Route& route : routes()) {
    const auto* method =
        google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(std::string(route.method));
    ASSERT_NE(method, nullptr) << route.method;
    EXPECT_FALSE(method->client_streaming()) << route.method;
    EXPECT_EQ(method->server_streaming(), route.kind == AnswerKind::kEvents || route.kind == AnswerKind::kTrace)
        << route.method;
    const size_t open = route.pattern.find('{');
    if (open != std::string_view::npos) {
      const std::string field(route.pattern.substr(open + 1, route.pattern.find('}') - open - 1));
      EXPECT_NE(method->input_type()->FindFieldByName(field.substr(0, field.find('.'))), nullptr) << route.pattern;
    }
  }
}

TEST(Routes, EveryUnaryMethodThatReadsIsReached) {
  for (const char* method : {"JobService.GetJob", "JobService.ListJobs", "JobService.ExplainKey",
                             "ArtifactService.GetArtifact", "ArtifactService.ListArtifacts",
                             "ArtifactService.CheckArtifact", "RecordService.ListRecords", "TargetService.GetTarget",
                             "TargetService.ListTargets", "TargetService.ValidateTarget", "FleetService.ListWorkers",
                             "OperatorService.ListOperators", "BlobService.FindMissingBlobs", "BlobService.QueryUpload",
                             "AdminService.ListTokens", "AdminService.VerifyStorage", "ServerService.ListServers"}) {
    const std::string full = std::string("tessera.v1.") + method;
    EXPECT_TRUE(std::ranges::any_of(routes(), [&](const Route& route) {
      return route.method == full && route.kind == AnswerKind::kUnary;
    })) << method;
  }
  for (const Route& route : routes()) {
    EXPECT_EQ(route.method.find("Token"), route.method.find("Tokens")) << "no token is made or shown here";
    EXPECT_EQ(route.method.find("WorkerService"), std::string_view::npos);
    EXPECT_EQ(route.method.find("Delete"), std::string_view::npos);
  }
}

TEST(Routes, VariablesAreOneSegment) {
  const auto cancel = match("POST", "/v1/jobs/job-7:cancel");
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->route->method, "tessera.v1.JobService.CancelJob");
  EXPECT_THAT(cancel->variables, ElementsAre(Pair("id", "job-7")));
  EXPECT_EQ(match("GET", "/v1/jobs/job-7/report")->route->kind, AnswerKind::kReport);
  EXPECT_EQ(match("GET", "/v1/blobs/00ff:queryUpload")->variables.front().first, "digest.sha256");
  for (const char* path : {"/v1/jobs/", "/v1/jobs//report", "/v1/jobs/a/b", "/v1/jobs/a:", "/v1/jobs/a:erase",
                           "/v1/job", "/v1/jobs/../tokens", "/v1/jobs/a/report/", "/v1", "", "/"}) {
    EXPECT_FALSE(match("GET", path)) << path;
  }
}

TEST(Routes, AnotherVerbIsNamed) {
  std::string allowed;
  EXPECT_FALSE(match("GET", "/v1/jobs/job-7:cancel", &allowed));
  EXPECT_EQ(allowed, "POST") << "a link or an image must not end a job";
}

}  // namespace
}  // namespace tessera::server::gateway
