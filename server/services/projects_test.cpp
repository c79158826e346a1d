// What one project tries with what is another's, what its quotas say, and what is written down of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "proto/failure.h"
#include "proto/project.h"
#include "server/testing/service_bench.h"

namespace tessera::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

/// The stubs of one caller; `project`: what it says in its metadata that it speaks for.
struct As {
  explicit As(const std::shared_ptr<grpc::Channel>& channel, std::string spoken_for = "")
      : project(std::move(spoken_for)),
        jobs(channel),
        blobs(channel),
        artifacts(channel),
        targets(channel),
        records(channel),
        execution(channel),
        fleet(channel),
        admin(channel) {}

  template <typename Stub, typename Request, typename Response>
  grpc::Status operator()(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                          const Request& request, Response* response = nullptr) {
    grpc::ClientContext context;
    prepare(context);
    Response unread;
    return (stub.*method)(&context, request, response != nullptr ? response : &unread);
  }
  void prepare(grpc::ClientContext& context) const {
    if (!project.empty()) context.AddMetadata(kProjectMetadata, project);
  }

  std::vector<std::string> jobIds() {
    v1::ListJobsResponse page;
    const grpc::Status status = (*this)(jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest(), &page);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> ids;
    for (const v1::Job& job : page.jobs()) ids.push_back(job.id());
    return ids;
  }
  grpc::Status fetch(const std::string& sha256, std::string& bytes) {
    v1::DownloadBlobRequest request;
    request.set_sha256(sha256);
    return download(blobs, request, bytes);
  }
  bool misses(const std::string& content) {
    v1::FindMissingBlobsRequest request;
    *request.add_digests() = digestOf(content);
    v1::FindMissingBlobsResponse response;
    EXPECT_TRUE((*this)(blobs, &v1::BlobService::Stub::FindMissingBlobs, request, &response).ok());
    return response.missing_size() == 1;
  }

  const std::string project;
  v1::JobService::Stub jobs;
  v1::BlobService::Stub blobs;
  v1::ArtifactService::Stub artifacts;
  v1::TargetService::Stub targets;
  v1::RecordService::Stub records;
  v1::ExecutionService::Stub execution;
  v1::FleetService::Stub fleet;
  v1::AdminService::Stub admin;
};

v1::CreateJobRequest compileOf(const std::string& model, const std::string& request_id) {
  v1::CreateJobRequest request;
  request.set_request_id(request_id);
  *request.mutable_compile()->mutable_model() = digestOf(model);
  request.mutable_compile()->set_name("net");
  request.mutable_compile()->mutable_target()->set_name("cascadelake");
  return request;
}

class Projects : public testing::Test {
 protected:
  explicit Projects(ServerOptions options = {}) : bench_(std::move(options)) {}

  As of(const std::string& project, v1::Role role = v1::CLIENT) {
    return As(bench_.clientChannel(bench_.newToken(project + "'s", role, 0, project)));
  }
  As operatorFor(const std::string& project) { return As(bench_.operator_channel, project); }

  v1::Job create(As& as, const v1::CreateJobRequest& request) {
    v1::CreateJobResponse response;
    const grpc::Status status = as(as.jobs, &v1::JobService::Stub::CreateJob, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }
  v1::Job get(As& as, const std::string& id) {
    v1::GetJobRequest request;
    request.set_id(id);
    v1::GetJobResponse response;
    (void)as(as.jobs, &v1::JobService::Stub::GetJob, request, &response);
    return response.job();
  }
  /// Uploads and compiles, and waits for the end.
  v1::Job compiled(As& as, const std::string& model, const std::string& request_id) {
    EXPECT_TRUE(upload(as.blobs, model).ok());
    const v1::Job job = create(as, compileOf(model, request_id));
    return ended(as, job.id());
  }
  v1::Job ended(As& as, const std::string& id) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    v1::Job job = get(as, id);
    while ((job.state() == v1::Job::QUEUED || job.state() == v1::Job::RUNNING) &&
           std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      job = get(as, id);
    }
    return job;
  }

  ServiceBench bench_;
};

constexpr char kModel[] = "model net: a b";

TEST_F(Projects, AnothersJobsAreNotThere) {
  As vision = of("vision"), speech = of("speech");
  ASSERT_TRUE(upload(vision.blobs, kModel).ok());
  const v1::Job job = create(vision, compileOf(kModel, "nightly"));
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
  // A request's name is its project's: the same one makes another job there.
  ASSERT_TRUE(upload(speech.blobs, kModel).ok());
  const v1::Job own = create(speech, compileOf(kModel, "nightly"));
  EXPECT_NE(own.id(), job.id());
  EXPECT_THAT(own.joined_job_id(), IsEmpty()) << "equal work of another project is not joined";
}

TEST_F(Projects, AnotherProjectIsSpokenForByOperatorsAlone) {
  As vision = of("vision");
  ASSERT_TRUE(upload(vision.blobs, kModel).ok());
  const v1::Job job = create(vision, compileOf(kModel, "r1"));
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
  EXPECT_EQ(create(for_vision, compileOf(kModel, "r2")).project(), "vision");
  EXPECT_EQ(for_all(for_all.jobs, &v1::JobService::Stub::CreateJob, compileOf(kModel, "r3")).error_code(),
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
    // By name in a request ...
    EXPECT_EQ((*thief)(thief->jobs, &v1::JobService::Stub::CreateJob, compileOf(secret, "r1")).error_code(),
              StatusCode::NOT_FOUND);
    // ... and by an upload that sends nothing, something else, or names another size.
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
  // Who has the bytes has them, and nobody else loses them.
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
  // Less than all of it is sent, and then the stream breaks.
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
  grpc::Status status = send(vision, 99'999, "s");
  while (status.error_code() == StatusCode::ABORTED && std::chrono::steady_clock::now() < give_up) {
    status = send(vision, 99'999, "s");  // the first stream may still be ending
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(send(speech, 99'999, "s").error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(Projects, NothingIsAnsweredFromAnothersCache) {
  FakeWorkerLoop worker(bench_, "w1");
  As vision = of("vision"), speech = of("speech");
  const v1::Job first = compiled(vision, kModel, "r1");
  ASSERT_EQ(first.state(), v1::Job::SUCCEEDED);
  const v1::Job again = compiled(vision, kModel, "r2");
  EXPECT_TRUE(again.cached());
  const int built = worker.done(v1::BUILD);
  const v1::Job theirs = compiled(speech, kModel, "r1");
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
  *explain.mutable_compile() = compileOf(kModel, "").compile();
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
  const v1::Job job = compiled(vision, kModel, "r1");
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

  // A target's name is its project's; two may use it for two chips.
  v1::GetTargetRequest lake;
  lake.set_name("cascadelake");
  v1::GetTargetResponse chip;
  ASSERT_TRUE(vision(vision.targets, &v1::TargetService::Stub::GetTarget, lake, &chip).ok());
  EXPECT_THAT(chip.project(), IsEmpty());
  v1::RegisterTargetRequest own;
  *own.mutable_target() = chip.target();
  own.mutable_target()->set_name("edge");
  ASSERT_TRUE(vision(vision.targets, &v1::TargetService::Stub::RegisterTarget, own).ok());
  lake.set_name("edge");
  EXPECT_EQ(speech(speech.targets, &v1::TargetService::Stub::GetTarget, lake).error_code(), StatusCode::NOT_FOUND);
  v1::CreateJobRequest request = compileOf("model other: c", "r9");
  request.mutable_compile()->mutable_target()->set_name("edge");
  ASSERT_TRUE(upload(speech.blobs, "model other: c").ok());
  EXPECT_EQ(speech(speech.jobs, &v1::JobService::Stub::CreateJob, request).error_code(), StatusCode::INVALID_ARGUMENT);
  own.mutable_target()->mutable_memory(0)->set_capacity_bytes(chip.target().memory(0).capacity_bytes() * 2);
  v1::RegisterTargetResponse registered;
  ASSERT_TRUE(speech(speech.targets, &v1::TargetService::Stub::RegisterTarget, own, &registered).ok());
  EXPECT_TRUE(registered.created()) << "the name is free";
  for (As* as : {&vision, &speech}) {
    v1::ListTargetsRequest list;
    list.set_filter("name = edge OR name = cascadelake");
    v1::ListTargetsResponse targets;
    ASSERT_TRUE((*as)(as->targets, &v1::TargetService::Stub::ListTargets, list, &targets).ok());
    ASSERT_EQ(targets.targets_size(), 2);
    EXPECT_EQ(targets.targets(1).project(), as == &vision ? "vision" : "speech");
    EXPECT_EQ(targets.targets(1).hash() == registered.hash(), as == &speech);
  }
}

TEST_F(Projects, WorkersShowOnesOwnTasksAlone) {
  As vision = of("vision"), speech = of("speech");
  ASSERT_TRUE(upload(vision.blobs, kModel).ok());
  (void)create(vision, compileOf(kModel, "r1"));
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
  ASSERT_TRUE(upload(vision.blobs, kModel).ok());
  const v1::Job job = create(vision, compileOf(kModel, "r1"));
  bench_.restart();
  EXPECT_THAT(vision.jobIds(), ElementsAre(job.id()));
  EXPECT_THAT(speech.jobIds(), IsEmpty());
  std::string bytes;
  EXPECT_EQ(speech.fetch(digestOf(kModel).sha256(), bytes).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(vision.fetch(digestOf(kModel).sha256(), bytes).ok());
}

/// A service with a file of quotas and an audit log.
class Governed : public Projects {
 public:
  Governed() : Projects(options()) {}
  ~Governed() override { std::filesystem::remove_all(folder()); }

  static std::string folder() { return testing::TempDir() + "/governed-" + std::to_string(getpid()); }
  static std::string quotasFile() { return folder() + "/quotas.textproto"; }
  static std::string auditFile() { return folder() + "/audit.jsonl"; }
  static ServerOptions options() {
    std::filesystem::create_directories(folder());
    std::ofstream(quotasFile()) << "of { project: \"vision\" quota { queued_jobs: 2 running_jobs: 1 } }";
    ServerOptions options;
    options.quotas_file = quotasFile();
    options.audit_file = auditFile();
    return options;
  }
  static v1::Failure failureIn(const grpc::Status& status) {
    const auto failure = tessera::failureInDetails(status.error_details());
    EXPECT_TRUE(failure.has_value()) << status.error_message();
    return failure.value_or(v1::Failure());
  }
  static std::vector<Json> audited(const std::string& method) {
    std::vector<Json> lines;
    std::ifstream in(auditFile());
    for (std::string line; std::getline(in, line);) {
      const Json entry = Json::parse(line);
      if (entry["method"] == method) lines.push_back(entry);
    }
    return lines;
  }
  v1::ListQuotasResponse::Usage usageOf(const std::string& project) {
    v1::ListQuotasResponse all;
    grpc::ClientContext context;
    EXPECT_TRUE(bench_.admin->ListQuotas(&context, v1::ListQuotasRequest(), &all).ok());
    for (const auto& usage : all.projects()) {
      if (usage.project() == project) return usage;
    }
    return {};
  }
  /// Until the server has read it.
  void setQuotas(const std::string& text, const std::function<bool(const v1::Quota&)>& read) {
    std::ofstream(quotasFile() + ".new") << text;
    std::filesystem::rename(quotasFile() + ".new", quotasFile());
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!read(usageOf("vision").quota()) && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(read(usageOf("vision").quota()));
  }
};

TEST_F(Governed, JobsThatWaitAreBoundedAndOthersAreNot) {
  As vision = of("vision"), speech = of("speech");
  for (As* as : {&vision, &speech}) ASSERT_TRUE(upload(as->blobs, kModel).ok());
  const auto request = [](int number) {
    v1::CreateJobRequest made = compileOf(kModel, "r" + std::to_string(number));
    made.set_skip_cache(true);
    made.mutable_compile()->mutable_options()->set_opt_level(1 + number % 2);
    return made;
  };
  (void)create(vision, request(1));
  (void)create(vision, request(2));
  const grpc::Status status = vision(vision.jobs, &v1::JobService::Stub::CreateJob, request(3));
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const v1::Failure failure = failureIn(status);
  EXPECT_EQ(failure.reason(), v1::Failure::QUOTA_EXCEEDED);
  EXPECT_EQ(failure.attribute(), "queued_jobs");
  EXPECT_EQ(failure.found(), "2");
  EXPECT_GT(failure.retry_after_us(), 0);
  EXPECT_THAT(failure.message(), HasSubstr("vision"));
  EXPECT_EQ(create(vision, request(2)).request_id(), "r2") << "a repeated request is answered";
  for (int i = 0; i < 5; ++i) (void)create(speech, request(i));
  EXPECT_EQ(usageOf("vision").queued_jobs(), 2);
  EXPECT_EQ(usageOf("speech").queued_jobs(), 5);
  setQuotas("of { project: \"vision\" quota { queued_jobs: 3 } }",
            [](const v1::Quota& quota) { return quota.queued_jobs() == 3; });
  (void)create(vision, request(3));
  // A file that makes no sense changes nothing.
  std::ofstream(quotasFile()) << "nonsense";
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(usageOf("vision").quota().queued_jobs(), 3);
}

TEST_F(Governed, AsManyRunAsMayAndTheOthersWaitAndAllEnd) {
  As vision = of("vision");
  std::vector<std::string> ids;
  for (const char* model : {"model one: a b c", "model two: d e f"}) {
    ASSERT_TRUE(upload(vision.blobs, model).ok());
    ids.push_back(create(vision, compileOf(model, model)).id());
  }
  int most = 0;
  {
    FakeWorkerLoop first(bench_, "w1"), second(bench_, "w2"), third(bench_, "w3");
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    bool over = false;
    while (!over && std::chrono::steady_clock::now() < give_up) {
      most = std::max(most, static_cast<int>(usageOf("vision").running_jobs()));
      over = true;
      for (const std::string& id : ids) over = over && get(vision, id).state() == v1::Job::SUCCEEDED;
    }
    EXPECT_TRUE(over);
  }
  EXPECT_LE(most, 1);
  // Told exactly by the times of the jobs themselves.
  std::vector<v1::Job> jobs = {get(vision, ids[0]), get(vision, ids[1])};
  if (jobs[0].start_time_us() > jobs[1].start_time_us()) std::swap(jobs[0], jobs[1]);
  EXPECT_GE(jobs[1].start_time_us(), jobs[0].end_time_us());
}

TEST_F(Governed, BytesAreBoundedForEachWhoHasThem) {
  setQuotas("of { project: \"vision\" quota { stored_bytes: 1000 } }",
            [](const v1::Quota& quota) { return quota.stored_bytes() == 1000; });
  As vision = of("vision"), speech = of("speech");
  ASSERT_TRUE(upload(vision.blobs, std::string(600, 'x')).ok());
  ASSERT_TRUE(upload(vision.blobs, std::string(600, 'x')).ok()) << "equal bytes count once";
  EXPECT_EQ(usageOf("vision").stored_bytes(), 600);
  const grpc::Status status = upload(vision.blobs, std::string(401, 'y'));
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(failureIn(status).attribute(), "stored_bytes");
  ASSERT_TRUE(upload(speech.blobs, std::string(600, 'x')).ok());
  ASSERT_TRUE(upload(speech.blobs, std::string(401, 'y')).ok());
  EXPECT_EQ(usageOf("speech").stored_bytes(), 1001);
  EXPECT_EQ(upload(vision.blobs, std::string(401, 'y')).error_code(), StatusCode::RESOURCE_EXHAUSTED)
      << "also of what others have";
  EXPECT_TRUE(upload(vision.blobs, std::string(400, 'z')).ok());
  EXPECT_EQ(vision(vision.jobs, &v1::JobService::Stub::CreateJob, compileOf(std::string(400, 'z'), "r1")).error_code(),
            StatusCode::RESOURCE_EXHAUSTED)
      << "what it would make has no place";
}

TEST_F(Governed, WhatUploadsBeganCountsToo) {
  setQuotas("of { project: \"vision\" quota { stored_bytes: 1000 } }",
            [](const v1::Quota& quota) { return quota.stored_bytes() == 1000; });
  As vision = of("vision"), speech = of("speech");
  const auto breakOff = [](As& as, const std::string& bytes) {
    v1::UploadBlobRequest request;
    *request.mutable_digest() = digestOf(bytes);
    request.set_data(bytes.substr(1));
    grpc::ClientContext context;
    v1::UploadBlobResponse response;
    auto stream = as.blobs.UploadBlob(&context, &response);
    (void)stream->Write(request);
    v1::QueryUploadRequest query;
    *query.mutable_digest() = digestOf(bytes);
    v1::QueryUploadResponse there;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (there.committed_bytes() == 0 && std::chrono::steady_clock::now() < give_up) {
      EXPECT_TRUE(as(as.blobs, &v1::BlobService::Stub::QueryUpload, query, &there).ok());
    }
    EXPECT_EQ(there.committed_bytes(), static_cast<int64_t>(bytes.size()) - 1);
    context.TryCancel();
    (void)stream->Finish();
  };
  const std::string begun(601, 'x');
  breakOff(vision, begun);
  const auto refused = [&](int bytes) {
    const grpc::Status status = upload(vision.blobs, std::string(static_cast<size_t>(bytes), 'y'));
    return status.error_code() == StatusCode::RESOURCE_EXHAUSTED && failureIn(status).attribute() == "stored_bytes";
  };
  EXPECT_TRUE(refused(401));
  bench_.restart();
  EXPECT_TRUE(refused(401)) << "as before";
  EXPECT_TRUE(upload(speech.blobs, std::string(401, 'y')).ok());
  EXPECT_EQ(usageOf("vision").stored_bytes(), 0);
  ASSERT_TRUE(upload(vision.blobs, begun).ok()) << "nothing stands in its own way";
  EXPECT_TRUE(refused(400));
  EXPECT_TRUE(upload(vision.blobs, std::string(399, 'y')).ok()) << "it counts once";
}

TEST_F(Governed, CallsASecondAreBoundedAndOperatorsComeInToMendIt) {
  setQuotas("of { project: \"vision\" quota { calls_per_second: 5 } }",
            [](const v1::Quota& quota) { return quota.calls_per_second() == 5; });
  As vision = of("vision"), speech = of("speech"), mender = operatorFor("vision");
  int refused = 0;
  v1::Failure failure;
  for (int i = 0; i < 40; ++i) {
    const grpc::Status status = vision(vision.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest());
    if (!status.ok()) {
      EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
      failure = failureIn(status);
      ++refused;
    }
    EXPECT_THAT(speech.jobIds(), IsEmpty());
    EXPECT_THAT(mender.jobIds(), IsEmpty());
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(failure.attribute(), "calls_per_second");
  EXPECT_GT(failure.retry_after_us(), 0);
  EXPECT_LE(failure.retry_after_us(), 200'000);
}

TEST_F(Governed, WhoDidWhatIsWrittenDown) {
  As vision = of("vision"), speech = of("speech");
  const std::string secret = bench_.newToken("ada", v1::CLIENT, 0, "vision");
  As ada(bench_.clientChannel(secret)), guesser(bench_.clientChannel("tessera-guessed"));
  ASSERT_TRUE(upload(ada.blobs, kModel).ok());
  const v1::Job job = create(ada, compileOf(kModel, "r1"));
  (void)ada.jobIds();  // a look: of no interest
  v1::CancelJobRequest cancel;
  cancel.set_id(job.id());
  (void)speech(speech.jobs, &v1::JobService::Stub::CancelJob, cancel);
  (void)guesser(guesser.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest());
  (void)ada(ada.admin, &v1::AdminService::Stub::ListTokens, v1::ListTokensRequest());

  const std::vector<Json> made = audited("CreateJob");
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0]["who"], "ada");
  EXPECT_THAT(std::string(made[0]["credential"]), testing::StartsWith("token "));
  EXPECT_EQ(made[0]["role"], "client");
  EXPECT_EQ(made[0]["project"], "vision");
  EXPECT_EQ(made[0]["resource"], job.id());
  EXPECT_EQ(made[0]["answer"], "OK");
  EXPECT_THAT(std::string(made[0]["from"]), testing::StartsWith("ipv4:127.0.0.1:"));
  EXPECT_THAT(std::string(made[0]["time"]), testing::MatchesRegex("20..-..-..T..:..:..\\.......Z"));
  const std::vector<Json> sent = audited("UploadBlob");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0]["resource"], digestOf(kModel).sha256());
  const std::vector<Json> cancelled = audited("CancelJob");
  ASSERT_EQ(cancelled.size(), 1u);
  EXPECT_EQ(cancelled[0]["who"], "speech's");
  EXPECT_EQ(cancelled[0]["project"], "speech");
  EXPECT_EQ(cancelled[0]["answer"], "NOT_FOUND");
  const std::vector<Json> looked = audited("ListJobs");
  ASSERT_EQ(looked.size(), 1u) << "the refusal alone";
  EXPECT_EQ(looked[0]["answer"], "UNAUTHENTICATED");
  EXPECT_EQ(looked[0]["credential"], "a token that is not good");
  ASSERT_EQ(audited("ListTokens").size(), 1u);
  EXPECT_EQ(audited("ListTokens")[0]["answer"], "PERMISSION_DENIED");
  const std::vector<Json> tokens = audited("CreateToken");
  ASSERT_FALSE(tokens.empty());
  EXPECT_THAT(std::string(tokens.back()["resource"]), testing::StartsWith("token"));

  v1::ImportRecordsResponse imported;
  As every = operatorFor(kEveryProject);
  grpc::ClientContext context;
  every.prepare(context);
  auto importing = every.records.ImportRecords(&context, &imported);
  (void)importing->WritesDone();
  EXPECT_EQ(importing->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  ASSERT_EQ(audited("ImportRecords").size(), 1u);
  EXPECT_EQ(audited("ImportRecords")[0]["answer"], "INVALID_ARGUMENT");

  std::ifstream in(auditFile());
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_THAT(all, Not(HasSubstr(secret)));
  EXPECT_THAT(all, Not(HasSubstr("guessed")));
  struct stat facts{};
  ASSERT_EQ(stat(auditFile().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(Governed, WhoKnocksAllDayFillsNoDisk) {
  As guesser(bench_.clientChannel("tessera-guessed"));
  constexpr int kCalls = 300;
  for (int i = 0; i < kCalls; ++i) {
    (void)guesser(guesser.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest());
  }
  const auto told = [&] {
    int calls = 0;
    for (const Json& line : audited("ListJobs")) {
      const std::string message = line["message"];
      calls += message.find("more within a second") == std::string::npos ? 1 : std::stoi(message);
    }
    return calls;
  };
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (told() < kCalls && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(told(), kCalls) << "without another call";
  EXPECT_LT(audited("ListJobs").size(), kCalls / 2u);
}

}  // namespace
}  // namespace tessera::server
