// Validation of requests: what is accepted, what is rejected, and with which error.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "proto/messages/failure.h"
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

/// The same model as a tune request.
v1::TuneSpec& convertToTune(v1::CreateJobRequest& request) {
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
      {"files (count)",
       [](auto& r) {
         for (int i = 0; i < 65; ++i) r.add_files();
       }},
      {"files[1].data (bytes)",
       [](auto& r) {
         r.add_files();
         r.add_files()->set_data(std::string((64 << 10) + 1, 'x'));
       }},
      {"files (bytes)",
       [](auto& r) {
         for (int i = 0; i < 17; ++i) r.add_files()->set_data(std::string(64 << 10, 'x'));
       }},
      {"files[0].digest.sha256", [](auto& r) { r.add_files()->set_data("of no name"); }},
      {"files[0].digest.size_bytes",
       [](auto& r) {
         v1::EnclosedFile& file = *r.add_files();
         *file.mutable_digest() = digestOf("long");
         file.set_data("longer");
       }},
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
      {"tune.trials", [](auto& r) { convertToTune(r).set_trials(-1); }},
      {"tune.budget_us", [](auto& r) { convertToTune(r).set_budget_us(-1); }},
      {"tune.threads", [](auto& r) { convertToTune(r).set_threads(100'000); }},
      {"tune.top", [](auto& r) { convertToTune(r).set_top(-1); }},
      {"tune.min_share", [](auto& r) { convertToTune(r).set_min_share(1.5); }},
      {"tune.method", [](auto& r) { convertToTune(r).set_method("a\nb"); }},
      {"tune.method", [](auto& r) { convertToTune(r).set_method("Walk"); }},  // a valid name, but no method
      {"tune.compile.target",
       [](auto& r) { convertToTune(r).mutable_compile()->mutable_target()->set_name("systolic-128"); }},
      {"compile.target.family", [](auto& r) { r.mutable_compile()->mutable_target()->set_name("sm_90"); }},
      {"compile.specializations[2]",
       [](auto& r) {
         for (const int size : {1, 2, 1}) {
           auto* dimension = r.mutable_compile()->add_specializations()->add_dimensions();
           dimension->set_name("batch");
           dimension->set_size(size);
         }
       }},
      {"compile.fixed_inputs",
       [](auto& r) {
         r.mutable_compile()->set_format(v1::MLIR_TEXT);
         r.mutable_compile()->add_fixed_inputs();
       }},
      {"compile.fixed_inputs[0].data",
       [](auto& r) {
         auto* fixed = r.mutable_compile()->add_fixed_inputs();
         fixed->mutable_spec()->set_name("shape");
         fixed->mutable_spec()->set_dtype(v1::DATA_TYPE_I64);
         fixed->mutable_spec()->add_shape(2);
         fixed->set_data(std::string(8, '\0'));  // one of two values
       }},
      {"execute.inputs[0].data",
       [](auto& r) {
         r.mutable_execute()->set_artifact_id(std::string(64, 'a'));
         auto* input = r.mutable_execute()->add_inputs();
         input->mutable_spec()->set_name("x");
         input->mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
         for (int i = 0; i < 3; ++i) input->mutable_spec()->add_shape(int64_t{1} << 30);  // 2^92 bytes
         input->set_data(std::string(4, '\0'));
       }},
      {"profile.inputs[0].blob.size_bytes",
       [](auto& r) {
         r.mutable_profile()->set_artifact_id(std::string(64, 'a'));
         auto* input = r.mutable_profile()->add_inputs();
         input->mutable_spec()->set_name("x");
         input->mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
         *input->mutable_blob() = digestOf("seven b");
       }},
      {"tune.workloads[0]", [](auto& r) { convertToTune(r).add_workloads(); }},
      {"tune.measuring.repeat", [](auto& r) { convertToTune(r).mutable_measuring()->set_repeat(-1); }},
      {"tune.measuring.most", [](auto& r) { convertToTune(r).mutable_measuring()->set_most(1'000'000); }},
      {"tune.measuring.most",
       [](auto& r) {
         convertToTune(r).mutable_measuring()->set_most(3);
         r.mutable_tune()->mutable_measuring()->set_repeat(4);
       }},
      {"tune.measuring.most", [](auto& r) { convertToTune(r).mutable_measuring()->set_most(6); }},  // of 7 if unset
      {"tune.measuring.stable", [](auto& r) { convertToTune(r).mutable_measuring()->set_stable(-1); }},
      {"tune.measuring.tolerance", [](auto& r) { convertToTune(r).mutable_measuring()->set_tolerance(2); }},
      {"tune.measuring.trial_timeout_us",
       [](auto& r) { convertToTune(r).mutable_measuring()->set_trial_timeout_us(-1); }},
      {"tune.measuring.min_gain", [](auto& r) { convertToTune(r).mutable_measuring()->set_min_gain(0.5); }},
      {"tune.compile.pins", [](auto& r) { *convertToTune(r).mutable_compile()->mutable_pins() = digestOf("pins"); }},
      {"tune.compile.specializations", [](auto& r) { convertToTune(r).mutable_compile()->add_specializations(); }},
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
         dimension->set_size(INT64_MIN);  // not a range either
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

/// A call with one message each way, of a method without a generated stub.
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
  SchedulerFixture other;
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
