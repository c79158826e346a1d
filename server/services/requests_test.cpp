// What the border lets through, what it refuses and how it says so.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "proto/failure.h"
#include "proto/sha256.h"
#include "server/services/grpc_status.h"
#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

v1::Failure detailsOf(const grpc::Status& status) {
  const auto failure = failureInDetails(status.error_details());
  EXPECT_TRUE(failure.has_value()) << status.error_message();
  return failure.value_or(v1::Failure());
}

/// The same model, to be tuned.
v1::TuneSpec& tuneInstead(v1::CreateJobRequest& request) {
  const v1::CompileSpec compile = request.compile();
  *request.mutable_tune()->mutable_compile() = compile;
  return *request.mutable_tune();
}

TEST(Requests, RefusalsNameTheField) {
  ServiceBench bench;
  const v1::CreateJobRequest good = bench.compileRequest("r1", "net", "a");
  struct Case {
    std::string field;
    std::function<void(v1::CreateJobRequest&)> spoil;
  };
  const std::vector<Case> cases = {
      {"request_id", [](auto& r) { r.set_request_id(std::string(129, 'x')); }},
      {"spec", [](auto& r) { r.clear_compile(); }},
      {"priority", [](auto& r) { r.set_priority(100'000); }},
      {"queue_timeout_us", [](auto& r) { r.set_queue_timeout_us(-1); }},
      {"run_timeout_us", [](auto& r) { r.set_run_timeout_us(INT64_MAX); }},
      {"compile.model.sha256", [](auto& r) { r.mutable_compile()->mutable_model()->set_sha256("../../etc/passwd"); }},
      {"compile.model.size_bytes",
       [](auto& r) { r.mutable_compile()->mutable_model()->set_size_bytes(int64_t{1} << 40); }},
      {"compile.name", [](auto& r) { r.mutable_compile()->set_name(std::string(257, 'n')); }},
      {"compile.name", [](auto& r) { r.mutable_compile()->set_name("line\nbreak"); }},
      {"compile.options.opt_level", [](auto& r) { r.mutable_compile()->mutable_options()->set_opt_level(9); }},
      {"compile.options.precision",
       [](auto& r) {
         r.mutable_compile()->mutable_options()->set_precision(static_cast<v1::CompileOptions::Precision>(7));
       }},
      {"compile.options.knowledge.mode",
       [](auto& r) {
         r.mutable_compile()->mutable_options()->mutable_knowledge()->set_mode(static_cast<v1::Knowledge::Mode>(9));
       }},
      {"compile.options.knowledge.until_us",
       [](auto& r) { r.mutable_compile()->mutable_options()->mutable_knowledge()->set_mode(v1::Knowledge::SNAPSHOT); }},
      {"tune.trials", [](auto& r) { tuneInstead(r).set_trials(-1); }},
      {"tune.budget_us", [](auto& r) { tuneInstead(r).set_budget_us(-1); }},
      {"tune.threads", [](auto& r) { tuneInstead(r).set_threads(100'000); }},
      {"tune.top", [](auto& r) { tuneInstead(r).set_top(-1); }},
      {"tune.least_share", [](auto& r) { tuneInstead(r).set_least_share(1.5); }},
      {"tune.method", [](auto& r) { tuneInstead(r).set_method("a\nb"); }},
      {"tune.workloads[0]", [](auto& r) { tuneInstead(r).add_workloads(); }},
      {"tune.measuring.repeat", [](auto& r) { tuneInstead(r).mutable_measuring()->set_repeat(-1); }},
      {"tune.measuring.most", [](auto& r) { tuneInstead(r).mutable_measuring()->set_most(1'000'000); }},
      {"tune.measuring.stable", [](auto& r) { tuneInstead(r).mutable_measuring()->set_stable(-1); }},
      {"tune.measuring.tolerance", [](auto& r) { tuneInstead(r).mutable_measuring()->set_tolerance(2); }},
      {"tune.measuring.trial_timeout_us",
       [](auto& r) { tuneInstead(r).mutable_measuring()->set_trial_timeout_us(-1); }},
      {"tune.measuring.least_gain", [](auto& r) { tuneInstead(r).mutable_measuring()->set_least_gain(0.5); }},
      {"tune.compile.pins", [](auto& r) { *tuneInstead(r).mutable_compile()->mutable_pins() = digestOf("pins"); }},
      {"tune.compile.specializations", [](auto& r) { tuneInstead(r).mutable_compile()->add_specializations(); }},
      {"compile.input_shapes[0].shape[1]",
       [](auto& r) {
         auto* shape = r.mutable_compile()->add_input_shapes();
         shape->set_name("x");
         shape->add_shape(1);
         shape->add_shape(-3);
       }},
      {"compile.fixed_inputs[0].value",
       [](auto& r) {
         auto* fixed = r.mutable_compile()->add_fixed_inputs();
         fixed->mutable_spec()->set_name("shape");
         fixed->mutable_spec()->set_dtype(v1::DATA_TYPE_I64);
         *fixed->mutable_blob() = digestOf("eight kilobytes of extents");
       }},
      {"compile.fixed_inputs[0].data (bytes)",
       [](auto& r) {
         auto* fixed = r.mutable_compile()->add_fixed_inputs();
         fixed->mutable_spec()->set_name("shape");
         fixed->mutable_spec()->set_dtype(v1::DATA_TYPE_U8);
         fixed->set_data(std::string((64 << 10) + 1, 'x'));
       }},
      {"compile.dimensions[0].size",
       [](auto& r) {
         auto* dimension = r.mutable_compile()->add_dimensions();
         dimension->set_name("batch");
         dimension->set_size(INT64_MIN);  // no range either
       }},
      {"compile.dimensions[0].name", [](auto& r) { r.mutable_compile()->add_dimensions(); }},
      {"compile.specializations[0].dimensions[0].name",
       [](auto& r) {
         r.mutable_compile()->add_dimensions()->set_name("batch");
         r.mutable_compile()->add_specializations()->add_dimensions()->set_name("batch");
       }},
      {"compile.specializations[1].input_shapes[1].name",
       [](auto& r) {
         r.mutable_compile()->add_specializations();
         auto* specialization = r.mutable_compile()->add_specializations();
         for (int i = 0; i < 2; ++i) specialization->add_input_shapes()->set_name("x");
       }},
      {"compile.specializations (count)",
       [](auto& r) {
         for (int i = 0; i < 65; ++i) r.mutable_compile()->add_specializations();
       }},
      {"compile.external_data (location)", [](auto& r) { (*r.mutable_compile()->mutable_external_data())[""]; }},
      {"compile.target.name", [](auto& r) { r.mutable_compile()->mutable_target()->set_name("no-such-chip"); }},
      {"profile.repeat", [](auto& r) { r.mutable_profile()->set_repeat(-1); }},
      {"execute.artifact_id", [](auto& r) { r.mutable_execute()->set_artifact_id("x"); }},
      {"execute.artifact_id",
       [](auto& r) {
         r.mutable_execute()->set_artifact_id(std::string(64, 'a'));
         r.mutable_execute()->set_job_id("job-1");
       }},
      {"execute.version",
       [](auto& r) {
         r.mutable_execute()->set_artifact_id(std::string(64, 'a'));
         r.mutable_execute()->set_version(1);
       }},
      {"execute.version",
       [](auto& r) {
         r.mutable_execute()->set_job_id("job-1");
         r.mutable_execute()->set_version(-1);
       }},
  };
  for (const Case& one : cases) {
    v1::CreateJobRequest request = good;
    one.spoil(request);
    grpc::ClientContext context;
    v1::CreateJobResponse response;
    const grpc::Status status = bench.jobs->CreateJob(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << one.field;
    EXPECT_THAT(status.error_message(), HasSubstr(one.field));
    const v1::Failure failure = detailsOf(status);
    EXPECT_EQ(failure.attribute(), one.field);
    EXPECT_NE(failure.accepted(), "");
    EXPECT_NE(failure.fix(), "");
  }
  v1::CreateJobRequest dry = good;
  dry.set_validate_only(true);
  EXPECT_EQ(bench.create(dry).id(), "");
  EXPECT_NE(bench.create(good).id(), "");
}

TEST(Requests, AMissingModelIsSaidSo) {
  ServiceBench bench;
  v1::CreateJobRequest request = bench.compileRequest("r1", "net", "a");
  *request.mutable_compile()->mutable_model() = digestOf("never uploaded");
  grpc::ClientContext context;
  v1::CreateJobResponse response;
  const grpc::Status status = bench.jobs->CreateJob(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(detailsOf(status).reason(), v1::Failure::MISSING_BLOB);
}

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
  do {  // until the server has let go of the broken stream there is another writer
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
  } while (status.error_code() == grpc::StatusCode::ABORTED);
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

TEST(Targets, HostIsTheClientsMachineAndNotTheServers) {
  ServiceBench bench;
  v1::GetTargetRequest get;
  get.set_name("host");
  grpc::ClientContext context;
  v1::GetTargetResponse target;
  const grpc::Status asked = bench.targets->GetTarget(&context, get, &target);
  EXPECT_EQ(asked.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << asked.error_message();
  EXPECT_THAT(asked.error_message(), HasSubstr("the machine of whoever asks"));
  auto request = bench.compileRequest("host-by-name", "net", "a");
  request.mutable_compile()->mutable_target()->set_name("host");
  grpc::ClientContext creation;
  v1::CreateJobResponse response;
  const grpc::Status created = bench.jobs->CreateJob(&creation, request, &response);
  EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << created.error_message();
  EXPECT_THAT(created.error_message(), HasSubstr("compile.target.name: host"));
}

TEST(Targets, ListGetValidateRegister) {
  ServiceBench bench;
  v1::GetTargetRequest get;
  get.set_name("cascadelake");
  v1::GetTargetResponse chip;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(bench.targets->GetTarget(&context, get, &chip).ok());
    EXPECT_TRUE(chip.builtin());
  }
  v1::RegisterTargetRequest request;
  *request.mutable_target() = chip.target();
  request.mutable_target()->set_name("my-chip");
  for (const bool created : {true, false}) {
    grpc::ClientContext context;
    v1::RegisterTargetResponse response;
    ASSERT_TRUE(bench.targets->RegisterTarget(&context, request, &response).ok());
    EXPECT_EQ(response.created(), created);
  }
  request.mutable_target()->mutable_memory(0)->set_energy_pj_per_byte(123.0);
  for (const char* name : {"my-chip", "cascadelake"}) {
    request.mutable_target()->set_name(name);
    grpc::ClientContext context;
    v1::RegisterTargetResponse response;
    EXPECT_EQ(bench.targets->RegisterTarget(&context, request, &response).error_code(),
              grpc::StatusCode::ALREADY_EXISTS);
  }
  {
    grpc::ClientContext context;
    v1::ListTargetsRequest list;
    list.set_filter("name = \"my-chip\" OR name = \"cascadelake\"");
    v1::ListTargetsResponse page;
    const grpc::Status status = bench.targets->ListTargets(&context, list, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(page.targets_size(), 2);
  }
  grpc::ClientContext context;
  v1::ValidateTargetRequest empty;
  v1::ValidateTargetResponse verdict;
  ASSERT_TRUE(bench.targets->ValidateTarget(&context, empty, &verdict).ok());
  EXPECT_GT(verdict.problems_size(), 0);
}

TEST(Fleet, ListsAndDrains) {
  ServiceBench bench;
  FakeWorkerLoop worker(bench, "w");
  (void)bench.watch(bench.create(bench.compileRequest("r1", "net", "a")).id());
  v1::DrainWorkerRequest drain;
  drain.set_worker_id("w");
  drain.set_drain(true);
  {
    grpc::ClientContext context;
    v1::DrainWorkerResponse response;
    ASSERT_TRUE(bench.fleet->DrainWorker(&context, drain, &response).ok());
    EXPECT_EQ(response.worker().state(), v1::Worker::DRAINING);
  }
  grpc::ClientContext context;
  v1::ListWorkersResponse page;
  ASSERT_TRUE(bench.fleet->ListWorkers(&context, v1::ListWorkersRequest(), &page).ok());
  ASSERT_EQ(page.workers_size(), 1);
  EXPECT_EQ(page.workers(0).tasks_done(), 3);
  grpc::ClientContext unknown;
  drain.set_worker_id("nobody");
  v1::DrainWorkerResponse response;
  EXPECT_EQ(bench.fleet->DrainWorker(&unknown, drain, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(Artifacts, AreListedAndCheckedAgainstAHost) {
  ServiceBench bench;
  FakeWorkerLoop worker(bench, "w");
  const v1::Job job = bench.create(bench.compileRequest("r1", "net", "a"));
  (void)bench.watch(job.id());
  grpc::ClientContext context;
  v1::ListArtifactsRequest list;
  list.set_filter("job = \"" + job.id() + "\"");
  v1::ListArtifactsResponse page;
  ASSERT_TRUE(bench.artifacts->ListArtifacts(&context, list, &page).ok());
  ASSERT_EQ(page.artifacts_size(), 1);
  grpc::ClientContext checking;
  v1::CheckArtifactRequest check;
  check.set_id(page.artifacts(0).id());
  check.mutable_host()->set_triple("aarch64-unknown-linux-gnu");
  v1::CheckArtifactResponse verdict;
  ASSERT_TRUE(bench.artifacts->CheckArtifact(&checking, check, &verdict).ok());
  EXPECT_FALSE(verdict.compatible());
  EXPECT_EQ(verdict.problems(0).reason(), v1::Failure::INCOMPATIBLE_HOST);
}

/// One message each way on a method we have no stub for.
std::string rawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                    const std::string& request_bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(request_bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  queue.Next(&tag, &ok);
  std::string text;
  std::vector<grpc::Slice> slices;
  if (ok && answer.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) {
      text.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_TRUE(status.ok()) << status.error_message();
  queue.Shutdown();
  return text;
}

TEST(Blobs, AnUploadThatFallsSilentGivesTheDigestFree) {
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
  const std::string bytes = "content";
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

TEST(Errors, FitTheTrailer) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_MODEL);
  for (std::string* text : {failure.mutable_message(), failure.mutable_node(), failure.mutable_found(),
                            failure.mutable_accepted(), failure.mutable_fix()}) {
    for (int i = 0; i < 5000; ++i) *text += "\xc3\xa9";
  }
  const grpc::Status status = toGrpc(failureStatus(failure));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(status.error_message().size() * 3 + status.error_details().size() * 4 / 3, 7500u) << "of 8192 in all";
  const v1::Failure cut = detailsOf(status);
  EXPECT_EQ(cut.reason(), v1::Failure::INVALID_MODEL);
  EXPECT_THAT(cut.message(), HasSubstr("[...]"));
  failure.set_message("short");
  for (std::string* text :
       {failure.mutable_node(), failure.mutable_found(), failure.mutable_accepted(), failure.mutable_fix()}) {
    text->clear();
  }
  EXPECT_EQ(toGrpc(failureStatus(failure)).error_message(), "short");
}

TEST(Server, AnswersHealthAndReflection) {
  ServiceBench bench;
  // grpc.health.v1.HealthCheckResponse: field 1 (status) = 1 (SERVING), 2 (NOT_SERVING).
  EXPECT_EQ(rawCall(bench.channel, "/grpc.health.v1.Health/Check", ""), std::string("\x08\x01", 2));
  bench.server->drain();
  EXPECT_EQ(rawCall(bench.channel, "/grpc.health.v1.Health/Check", ""), std::string("\x08\x02", 2));
  // ServerReflectionRequest: field 7 (list_services) = "".
  EXPECT_THAT(rawCall(bench.channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                      std::string("\x3a\x00", 2)),
              HasSubstr("tessera.v1.JobService"));
}

TEST(Server, SaysWhichAddressItCannotTake) {
  ServiceBench bench;
  ScratchFolder folder;
  SchedulerBench other;
  ServerOptions options;
  options.listen = {bench.address()};
  const auto second = Server::start(*other.store, *other.blobs, options);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  options.listen = {"unix:" + folder.path() + "/tessera.sock"};
  const auto local = Server::start(*other.store, *other.blobs, options);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ((*local)->addresses().front(), options.listen.front());
  EXPECT_EQ(rawCall(grpc::CreateChannel(options.listen.front(), grpc::InsecureChannelCredentials()),
                    "/grpc.health.v1.Health/Check", ""),
            std::string("\x08\x01", 2));
}

}  // namespace
}  // namespace tessera::server
