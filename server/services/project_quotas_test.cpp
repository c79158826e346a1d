// Quotas of projects, and the audit log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "proto/messages/failure.h"
#include "server/testing/project_bench.h"

namespace tessera::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

/// A service with a quota file and an audit log.
class Governed : public ProjectBench {
 public:
  Governed() : ProjectBench(options()) {}
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
  /// Waits until the server has read the file.
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
  for (As* as : {&vision, &speech}) ASSERT_TRUE(upload(as->blobs, kTwoUnits).ok());
  const auto request = [](int number) {
    v1::CreateJobRequest made = compileOf(kTwoUnits, "r" + std::to_string(number));
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
  // An invalid file changes nothing.
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
  // Measured by the times of the jobs themselves.
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

TEST_F(Governed, OfABatchWhatIsRefusedLeavesNoBytes) {
  setQuotas("of { project: \"vision\" quota { stored_bytes: 1000 } }",
            [](const v1::Quota& quota) { return quota.stored_bytes() == 1000; });
  As vision = of("vision");
  v1::BatchUpdateBlobsRequest request;
  for (const char letter : {'x', 'y', 'z'}) {
    auto* blob = request.add_blobs();
    blob->set_data(std::string(letter == 'z' ? 300 : 600, letter));
    *blob->mutable_digest() = digestOf(blob->data());
  }
  v1::BatchUpdateBlobsResponse response;
  ASSERT_TRUE(vision(vision.blobs, &v1::BlobService::Stub::BatchUpdateBlobs, request, &response).ok());
  EXPECT_EQ(response.answers(0).status().code(), 0);
  EXPECT_EQ(response.answers(1).status().code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(response.answers(2).status().code(), 0) << "the next one has a place";
  EXPECT_EQ(usageOf("vision").stored_bytes(), 900);
  ASSERT_TRUE(bench_.store()
                  .read([&](storage::Reader& reader) {
                    EXPECT_TRUE(reader.blobBytes(request.blobs(0).digest().sha256()).ok());
                    EXPECT_TRUE(absl::IsNotFound(reader.blobBytes(request.blobs(1).digest().sha256()).status()));
                    return absl::OkStatus();
                  })
                  .ok());
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
  ASSERT_TRUE(upload(ada.blobs, kTwoUnits).ok());
  const v1::Job job = create(ada, compileOf(kTwoUnits, "r1"));
  (void)ada.jobIds();  // reading calls are not audited
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
  EXPECT_EQ(sent[0]["resource"], digestOf(kTwoUnits).sha256());
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
