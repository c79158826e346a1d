// Attempts of one project on objects of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/project_bench.h"

namespace tessera::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

class Projects : public ProjectBench {};

TEST_F(Projects, AnothersJobsAreNotThere) {
  As vision = of("vision"), speech = of("speech");
  ASSERT_TRUE(upload(vision.blobs, kTwoUnits).ok());
  const v1::Job job = create(vision, compileOf(kTwoUnits, "nightly"));
  EXPECT_EQ(job.project(), "vision");
  EXPECT_THAT(vision.jobIds(), ElementsAre(job.id()));
  As stranger(bench_.channel), reader = of("speech", v1::READER), other_operator = of("speech", v1::OPERATOR);
  for (As* thief : {&speech, &stranger, &reader, &other_operator}) {
    EXPECT_THAT(thief->jobIds(), IsEmpty());
    v1::GetJobRequest look;
    look.set_id(job.id());
    const grpc::Status status = (*thief)(thief->jobs, &v1::JobService::Stub::GetJob, look);
    look.set_id("no such job");
    const grpc::Status absent = (*thief)(thief->jobs, &v1::JobService::Stub::GetJob, look);
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(), "there is no job \"" + job.id() + "\"");
    EXPECT_EQ(absent.error_message(), "there is no job \"no such job\"") << "nobody can tell the two apart";
    grpc::ClientContext context;
    v1::WatchJobRequest watch;
    watch.set_id(job.id());
    auto events = thief->jobs.WatchJob(&context, watch);
    v1::WatchJobResponse event;
    EXPECT_FALSE(events->Read(&event));
    EXPECT_EQ(events->Finish().error_code(), StatusCode::NOT_FOUND);
  }
  v1::CancelJobRequest cancel;
  cancel.set_id(job.id());
  for (As* thief : {&speech, &stranger, &other_operator}) {
    EXPECT_EQ((*thief)(thief->jobs, &v1::JobService::Stub::CancelJob, cancel).error_code(), StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(get(vision, job.id()).state(), v1::Job::QUEUED);
  // Request ids are per project: the same id creates another job there.
  ASSERT_TRUE(upload(speech.blobs, kTwoUnits).ok());
  const v1::Job own = create(speech, compileOf(kTwoUnits, "nightly"));
  EXPECT_NE(own.id(), job.id());
  EXPECT_THAT(own.joined_job_id(), IsEmpty()) << "equal work of another project is not joined";
}

TEST_F(Projects, AnotherProjectIsSpokenForByOperatorsAlone) {
  As vision = of("vision");
  ASSERT_TRUE(upload(vision.blobs, kTwoUnits).ok());
  const v1::Job job = create(vision, compileOf(kTwoUnits, "r1"));
  const std::string client_token = bench_.newToken("eve", v1::CLIENT, 0, "speech");
  for (const std::string project : {"vision", "-"}) {
    As eve(bench_.clientChannel(client_token), project);
    EXPECT_EQ(eve(eve.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest()).error_code(),
              StatusCode::PERMISSION_DENIED)
        << project;
  }
  As itself(bench_.clientChannel(client_token), "speech");
  EXPECT_THAT(itself.jobIds(), IsEmpty());
  EXPECT_THAT(operatorFor("").jobIds(), IsEmpty()) << "without a word it is of its own project";
  EXPECT_THAT(operatorFor("-").jobIds(), ElementsAre(job.id()));
  As for_vision = operatorFor("vision"), for_all = operatorFor("-"), wrong = operatorFor("Vi/sion");
  EXPECT_THAT(for_vision.jobIds(), ElementsAre(job.id()));
  EXPECT_EQ(create(for_vision, compileOf(kTwoUnits, "r2")).project(), "vision");
  EXPECT_EQ(for_all(for_all.jobs, &v1::JobService::Stub::CreateJob, compileOf(kTwoUnits, "r3")).error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(wrong(wrong.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest()).error_code(),
            StatusCode::INVALID_ARGUMENT);
  v1::CreateTokenRequest token;
  token.set_name("bob");
  token.set_role(v1::CLIENT);
  v1::CreateTokenResponse made;
  ASSERT_TRUE(for_vision(for_vision.admin, &v1::AdminService::Stub::CreateToken, token, &made).ok());
  EXPECT_EQ(made.token().project(), "vision");
  token.set_project("no name");
  EXPECT_EQ(for_vision(for_vision.admin, &v1::AdminService::Stub::CreateToken, token).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(Projects, ADigestIsNotItsContent) {
  As vision = of("vision"), speech = of("speech"), stranger(bench_.channel);
  const std::string secret = "model secret: a b";
  ASSERT_TRUE(upload(vision.blobs, secret).ok());
  const std::string sha256 = digestOf(secret).sha256();
  std::string bytes;
  EXPECT_TRUE(vision.fetch(sha256, bytes).ok());
  EXPECT_EQ(bytes, secret);
  EXPECT_FALSE(vision.misses(secret));
  for (As* thief : {&speech, &stranger}) {
    EXPECT_EQ(thief->fetch(sha256, bytes).error_code(), StatusCode::NOT_FOUND);
    EXPECT_THAT(bytes, IsEmpty());
    EXPECT_TRUE(thief->misses(secret));
    v1::QueryUploadRequest query;
    *query.mutable_digest() = digestOf(secret);
    v1::QueryUploadResponse state;
    ASSERT_TRUE((*thief)(thief->blobs, &v1::BlobService::Stub::QueryUpload, query, &state).ok());
    EXPECT_FALSE(state.complete());
    EXPECT_EQ(state.committed_bytes(), 0);
    // By its digest in a request ...
    EXPECT_EQ((*thief)(thief->jobs, &v1::JobService::Stub::CreateJob, compileOf(secret, "r1")).error_code(),
              StatusCode::NOT_FOUND);
    // ... and by an upload of no bytes, of other bytes, or with another size.
    for (const std::string& sent : {std::string(), std::string("model secret: a c"), secret + "!"}) {
      grpc::ClientContext context;
      v1::UploadBlobResponse answer;
      auto writer = thief->blobs.UploadBlob(&context, &answer);
      v1::UploadBlobRequest chunk;
      *chunk.mutable_digest() = digestOf(secret);
      if (sent.size() > secret.size()) chunk.mutable_digest()->set_size_bytes(static_cast<int64_t>(sent.size()));
      chunk.set_data(sent);
      writer->Write(chunk);
      writer->WritesDone();
      EXPECT_EQ(writer->Finish().error_code(), StatusCode::DATA_LOSS) << sent;
    }
    EXPECT_EQ(thief->fetch(sha256, bytes).error_code(), StatusCode::NOT_FOUND);
  }
  // A project that has the bytes can upload them, and nobody loses them.
  ASSERT_TRUE(upload(speech.blobs, secret).ok());
  EXPECT_TRUE(speech.fetch(sha256, bytes).ok());
  EXPECT_EQ(bytes, secret);
  EXPECT_TRUE(vision.fetch(sha256, bytes).ok());
}

TEST_F(Projects, WhatIsLeftOfAnUploadIsTheSendersToGoOnWith) {
  As vision = of("vision"), speech = of("speech");
  const std::string secret(100'000, 's');
  const auto committed = [&](As& as) {
    v1::QueryUploadRequest query;
    *query.mutable_digest() = digestOf(secret);
    v1::QueryUploadResponse state;
    EXPECT_TRUE(as(as.blobs, &v1::BlobService::Stub::QueryUpload, query, &state).ok());
    return state.committed_bytes();
  };
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // Only a part is sent, and then the stream breaks.
  const auto send = [&](As& as, int64_t offset, const std::string& data) {
    grpc::ClientContext context;
    v1::UploadBlobResponse answer;
    auto writer = as.blobs.UploadBlob(&context, &answer);
    v1::UploadBlobRequest chunk;
    *chunk.mutable_digest() = digestOf(secret);
    chunk.set_offset(offset);
    chunk.set_data(data);
    writer->Write(chunk);
    const auto end = offset + static_cast<int64_t>(data.size());
    if (end < static_cast<int64_t>(secret.size())) {
      while (committed(as) != end && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      context.TryCancel();
    }
    writer->WritesDone();
    return writer->Finish();
  };
  EXPECT_EQ(send(vision, 0, secret.substr(0, 99'999)).error_code(), StatusCode::CANCELLED);
  ASSERT_EQ(committed(vision), 99'999);
  EXPECT_EQ(committed(speech), 0);
  EXPECT_EQ(send(speech, 99'999, "s").error_code(), StatusCode::FAILED_PRECONDITION) << "the last byte is not the blob";
  const grpc::Status status = send(vision, 99'999, "s");  // the first stream may not have ended yet
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(send(speech, 99'999, "s").error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(Projects, NothingIsAnsweredFromAnothersCache) {
  FakeWorkerLoop worker(bench_, "w1");
  As vision = of("vision"), speech = of("speech");
  const v1::Job first = compiled(vision, kTwoUnits, "r1");
  ASSERT_EQ(first.state(), v1::Job::SUCCEEDED);
  const v1::Job again = compiled(vision, kTwoUnits, "r2");
  EXPECT_TRUE(again.cached());
  const int built = worker.done(v1::BUILD);
  const v1::Job theirs = compiled(speech, kTwoUnits, "r1");
  EXPECT_EQ(theirs.state(), v1::Job::SUCCEEDED);
  EXPECT_FALSE(theirs.cached());
  EXPECT_NE(theirs.action_key(), first.action_key());
  EXPECT_EQ(theirs.compile_result().workloads_reused(), 0);
  EXPECT_EQ(worker.done(v1::BUILD), 2 * built) << "objects are built anew as well";
  // Equal bytes are one file and two artifacts.
  const std::string id = theirs.compile_result().artifact_id();
  EXPECT_EQ(id, first.compile_result().artifact_id());
  for (As* as : {&vision, &speech}) {
    v1::ListArtifactsResponse page;
    ASSERT_TRUE(
        (*as)(as->artifacts, &v1::ArtifactService::Stub::ListArtifacts, v1::ListArtifactsRequest(), &page).ok());
    ASSERT_EQ(page.artifacts_size(), 1);
    EXPECT_EQ(page.artifacts(0).job_id(), as == &vision ? first.id() : theirs.id());
    std::string bytes;
    EXPECT_TRUE(as->fetch(page.artifacts(0).blob().sha256(), bytes).ok());
  }
  v1::ExplainKeyRequest explain;
  *explain.mutable_compile() = compileOf(kTwoUnits, "").compile();
  v1::ExplainKeyResponse key;
  As third = of("third");
  ASSERT_TRUE(third(third.jobs, &v1::JobService::Stub::ExplainKey, explain, &key).ok());
  EXPECT_FALSE(key.hit());
  EXPECT_THAT(key.nearest_job_id(), IsEmpty());
  ASSERT_TRUE(vision(vision.jobs, &v1::JobService::Stub::ExplainKey, explain, &key).ok());
  EXPECT_TRUE(key.hit());
}

TEST_F(Projects, AnothersArtifactsRecordsAndTargetsAreNotThere) {
  FakeWorkerLoop worker(bench_, "w1");
  As vision = of("vision"), speech = of("speech");
  const v1::Job job = compiled(vision, kTwoUnits, "r1");
  const std::string artifact = job.compile_result().artifact_id();
  v1::ProfileRequest profile;
  profile.mutable_spec()->set_artifact_id(artifact);
  ASSERT_TRUE(vision(vision.execution, &v1::ExecutionService::Stub::Profile, profile).ok());
  EXPECT_EQ(speech(speech.execution, &v1::ExecutionService::Stub::Profile, profile).error_code(),
            StatusCode::NOT_FOUND);
  v1::ExecuteRequest execute;
  execute.mutable_spec()->set_artifact_id(artifact);
  EXPECT_EQ(speech(speech.execution, &v1::ExecutionService::Stub::Execute, execute).error_code(),
            StatusCode::NOT_FOUND);
  v1::GetArtifactRequest get;
  get.set_id(artifact);
  EXPECT_TRUE(vision(vision.artifacts, &v1::ArtifactService::Stub::GetArtifact, get).ok());
  EXPECT_EQ(speech(speech.artifacts, &v1::ArtifactService::Stub::GetArtifact, get).error_code(), StatusCode::NOT_FOUND);
  v1::CheckArtifactRequest check;
  check.set_id(artifact);
  check.mutable_host()->set_triple("x86_64");
  EXPECT_EQ(speech(speech.artifacts, &v1::ArtifactService::Stub::CheckArtifact, check).error_code(),
            StatusCode::NOT_FOUND);
  std::string bytes;
  EXPECT_EQ(speech.fetch(artifact, bytes).error_code(), StatusCode::NOT_FOUND);

  v1::ListRecordsResponse records, theirs;
  ASSERT_TRUE(vision(vision.records, &v1::RecordService::Stub::ListRecords, v1::ListRecordsRequest(), &records).ok());
  ASSERT_GT(records.records_size(), 0);
  v1::ListRecordsRequest narrow;
  narrow.set_filter("workload = \"" + records.records(0).workload_hash() + "\" OR threads > 0");
  ASSERT_TRUE(speech(speech.records, &v1::RecordService::Stub::ListRecords, narrow, &theirs).ok());
  EXPECT_EQ(theirs.records_size(), 0);
  v1::GetRecordRequest record;
  record.set_id(records.records(0).id());
  EXPECT_EQ(speech(speech.records, &v1::RecordService::Stub::GetRecord, record).error_code(), StatusCode::NOT_FOUND);
  v1::BestRecordsRequest best;
  v1::BestRecordsResponse groups;
  best.add_workload_hashes(records.records(0).workload_hash());
  ASSERT_TRUE(vision(vision.records, &v1::RecordService::Stub::BestRecords, best, &groups).ok());
  EXPECT_EQ(groups.groups_size(), 1);
  ASSERT_TRUE(speech(speech.records, &v1::RecordService::Stub::BestRecords, best, &groups).ok());
  EXPECT_EQ(groups.groups_size(), 0);
  v1::RecordStatisticsResponse statistics;
  ASSERT_TRUE(
      speech(speech.records, &v1::RecordService::Stub::RecordStatistics, v1::RecordStatisticsRequest(), &statistics)
          .ok());
  for (const auto& group : statistics.groups()) EXPECT_EQ(group.records(), 0);
  grpc::ClientContext context;
  auto exported = speech.records.ExportRecords(&context, v1::ExportRecordsRequest());
  v1::ExportRecordsResponse one;
  EXPECT_FALSE(exported->Read(&one));
  EXPECT_TRUE(exported->Finish().ok());

  // Names of targets are per project; two projects may use one name for two chips.
  v1::GetTargetRequest lake;
  lake.set_name("cascadelake");
  v1::GetTargetResponse chip;
  ASSERT_TRUE(vision(vision.targets, &v1::TargetService::Stub::GetTarget, lake, &chip).ok());
  EXPECT_THAT(chip.project(), IsEmpty());
  v1::RegisterTargetRequest own;
  *own.mutable_target() = chip.target();
  own.mutable_target()->set_name("house-chip");
  ASSERT_TRUE(vision(vision.targets, &v1::TargetService::Stub::RegisterTarget, own).ok());
  lake.set_name("house-chip");
  EXPECT_EQ(speech(speech.targets, &v1::TargetService::Stub::GetTarget, lake).error_code(), StatusCode::NOT_FOUND);
  v1::CreateJobRequest request = compileOf("model other: c", "r9");
  request.mutable_compile()->mutable_target()->set_name("house-chip");
  ASSERT_TRUE(upload(speech.blobs, "model other: c").ok());
  EXPECT_EQ(speech(speech.jobs, &v1::JobService::Stub::CreateJob, request).error_code(), StatusCode::INVALID_ARGUMENT);
  own.mutable_target()->mutable_memory(0)->set_capacity_bytes(chip.target().memory(0).capacity_bytes() * 2);
  v1::RegisterTargetResponse registered;
  ASSERT_TRUE(speech(speech.targets, &v1::TargetService::Stub::RegisterTarget, own, &registered).ok());
  EXPECT_TRUE(registered.created()) << "the name is free";
  for (As* as : {&vision, &speech}) {
    v1::ListTargetsRequest list;
    list.set_filter("name = house-chip OR name = cascadelake");
    v1::ListTargetsResponse targets;
    ASSERT_TRUE((*as)(as->targets, &v1::TargetService::Stub::ListTargets, list, &targets).ok());
    ASSERT_EQ(targets.targets_size(), 2);
    EXPECT_EQ(targets.targets(1).project(), as == &vision ? "vision" : "speech");
    EXPECT_EQ(targets.targets(1).hash() == registered.hash(), as == &speech);
  }
}

TEST_F(Projects, WorkersShowOnesOwnTasksAlone) {
  As vision = of("vision"), speech = of("speech");
  ASSERT_TRUE(upload(vision.blobs, kTwoUnits).ok());
  (void)create(vision, compileOf(kTwoUnits, "r1"));
  v1::RegisterWorkerRequest worker;
  worker.set_worker_id("w");
  worker.set_compiler_version(bench_.server->scheduler().rules().compiler_version);
  worker.set_pid(1);
  grpc::ClientContext registering, leasing;
  v1::RegisterWorkerResponse registered;
  ASSERT_TRUE(bench_.workers->RegisterWorker(&registering, worker, &registered).ok());
  v1::LeaseTaskRequest ask;
  ask.set_worker_id("w");
  v1::LeaseTaskResponse lease;
  ASSERT_TRUE(bench_.workers->LeaseTask(&leasing, ask, &lease).ok());
  ASSERT_TRUE(lease.has_lease());
  const auto tasks = [](As& as) {
    v1::ListWorkersResponse page;
    EXPECT_TRUE(as(as.fleet, &v1::FleetService::Stub::ListWorkers, v1::ListWorkersRequest(), &page).ok());
    return page.workers(0).task_ids_size();
  };
  EXPECT_EQ(tasks(vision), 1);
  EXPECT_EQ(tasks(speech), 0);
  As operator_of_all = operatorFor("");
  EXPECT_EQ(tasks(operator_of_all), 1);
}

TEST_F(Projects, WhatIsTheirsStaysTheirsAcrossARestartAndACollection) {
  As vision = of("vision"), speech = of("speech");
  ASSERT_TRUE(upload(vision.blobs, kTwoUnits).ok());
  const v1::Job job = create(vision, compileOf(kTwoUnits, "r1"));
  bench_.restart();
  EXPECT_THAT(vision.jobIds(), ElementsAre(job.id()));
  EXPECT_THAT(speech.jobIds(), IsEmpty());
  std::string bytes;
  EXPECT_EQ(speech.fetch(digestOf(kTwoUnits).sha256(), bytes).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(vision.fetch(digestOf(kTwoUnits).sha256(), bytes).ok());
}

}  // namespace
}  // namespace tessera::server
