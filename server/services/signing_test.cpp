// The service signs artifacts that its own workers made, and no uploaded file.
#include "proto/signing/artifact_signature.h"
#include "server/testing/service_bench.h"
#include "tessera/v1/signing_service.grpc.pb.h"

namespace tessera::server {
namespace {

TEST(Signing, OnlyWhatWasBuiltHereIsSigned) {
  ServiceBench bench;
  const auto stub = v1::SigningService::NewStub(bench.channel);
  const auto sign = [&](const std::string& id, v1::SignArtifactResponse* response) {
    grpc::ClientContext context;
    v1::SignArtifactRequest request;
    request.set_artifact_id(id);
    return stub->SignArtifact(&context, request, response).error_code();
  };
  v1::SignArtifactResponse response;
  const std::string uploaded = "native code of a stranger";
  ASSERT_TRUE(upload(*bench.blobs, uploaded).ok());
  EXPECT_EQ(sign(digestOf(uploaded).sha256(), &response), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(sign("../signing.key", &response), grpc::StatusCode::INVALID_ARGUMENT);

  const FakeWorkerLoop worker(bench, "w");
  const std::string job = bench.create(bench.compileRequest("r1", "net", "a")).id();
  (void)bench.watch(job);
  const std::string artifact = bench.job(job).compile_result().artifact_id();
  ASSERT_EQ(sign(artifact, &response), grpc::StatusCode::OK);
  EXPECT_TRUE(verifies({artifact, response.public_key(), response.signature()}));
  v1::GetSigningKeyResponse key;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->GetSigningKey(&context, {}, &key).ok());
  EXPECT_EQ(key.public_key(), response.public_key());
}

}  // namespace
}  // namespace tessera::server
