#include "server/access/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "server/testing/scheduler_bench.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {
namespace {

using Json = nlohmann::json;

std::vector<Json> linesOf(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(AuditLog, IsTheOwnersAloneAndGoesOnUnderItsNameWhenItIsRenamed) {
  ScratchFolder folder;
  const std::string path = folder.path() + "/audit.jsonl";
  std::ofstream(path) << "";
  std::filesystem::permissions(path, std::filesystem::perms::all);
  auto log = AuditLog::open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  struct stat facts{};
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  v1::AuditEntry entry;
  entry.set_method("First");
  (*log)->write(entry);
  std::filesystem::rename(path, path + ".1");
  entry.set_method("Second");
  (*log)->write(entry);
  ASSERT_TRUE((*log)->reopen().ok());
  entry.set_method("Third");
  (*log)->write(entry);
  const std::vector<Json> old = linesOf(path + ".1"), now = linesOf(path);
  ASSERT_EQ(old.size(), 2u);
  EXPECT_EQ(old[1]["method"], "Second") << "until it is told";
  ASSERT_EQ(now.size(), 1u);
  EXPECT_EQ(now[0]["method"], "Third");
  EXPECT_EQ(AuditLog::open(folder.path() + "/no/such/folder").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(AuditLog, ALineIsALineWhateverStrangersSend) {
  ScratchFolder folder;
  const std::string path = folder.path() + "/audit.jsonl";
  auto log = AuditLog::open(path);
  ASSERT_TRUE(log.ok());
  v1::AuditEntry entry;
  entry.set_who("ada\"}\n{\"who\": \"bob\"}\x1b[2J");
  entry.set_message(std::string(999, 'x') + "\xc3\xa9 and more");
  (*log)->write(entry);
  const std::vector<Json> lines = linesOf(path);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["who"], "ada\"}\\x0a{\"who\": \"bob\"}\\x1b[2J");
  EXPECT_EQ(lines[0]["message"], std::string(999, 'x')) << "no character is cut in two";
}

TEST(AuditLog, RefusalsAreFoldedAndBoundedAndSuccessesAreNot) {
  ScratchFolder folder;
  const std::string path = folder.path() + "/audit.jsonl";
  auto log = AuditLog::open(path);
  ASSERT_TRUE(log.ok());
  const auto refusal = [](const std::string& who, const std::string& resource) {
    v1::AuditEntry entry;
    entry.set_who(who);
    entry.set_resource(resource);
    entry.set_answer("NOT_FOUND");
    entry.set_message("there is none");
    return entry;
  };
  const AuditLog::Time begin{std::chrono::hours(1)};
  const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  for (int i = 0; i < 41; ++i) {
    v1::AuditEntry entry = refusal("eve", "job-1");
    entry.set_from("ipv4:10.0.0.7:" + std::to_string(4000 + i));
    (*log)->writeRefusal(entry, at(i));
  }
  (*log)->writeRefusal(refusal("ada", "job-1"), at(900));
  (*log)->flush(at(999));
  std::vector<Json> lines = linesOf(path);
  ASSERT_EQ(lines.size(), 2u) << "at once, and once";
  EXPECT_EQ(lines[0]["message"], "there is none");
  EXPECT_EQ(lines[1]["who"], "ada") << "another caller's is its own";
  (*log)->flush(at(1000));
  lines = linesOf(path);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2]["who"], "eve");
  EXPECT_EQ(lines[2]["message"], "40 more within a second; the last: there is none");
  EXPECT_EQ(lines[2]["from"], "ipv4:10.0.0.7:4040");
  (*log)->flush(at(9000));
  EXPECT_EQ(linesOf(path).size(), 3u) << "told once";

  // One caller guesses names, then a hundred callers do.
  for (int i = 0; i < 1000; ++i) (*log)->writeRefusal(refusal("eve", "job-" + std::to_string(i)), at(10'000));
  (*log)->writeRefusal(refusal("ada", "job-1"), at(10'000));
  EXPECT_EQ(linesOf(path).size(), 3u + AuditLog::kMaxRefusalsOfOne + 1) << "others are heard beside her";
  for (int i = 0; i < 1000; ++i) (*log)->writeRefusal(refusal(std::to_string(i), "job-1"), at(10'500));
  const size_t full = 3u + AuditLog::kMaxRefusals;
  EXPECT_EQ(linesOf(path).size(), full);
  v1::AuditEntry done;
  done.set_answer("OK");
  for (int i = 0; i < 200; ++i) (*log)->write(done);
  EXPECT_EQ(linesOf(path).size(), full + 200);
  (*log)->writeRefusal(refusal("ada", "job-1"), at(11'000));
  lines = linesOf(path);
  ASSERT_EQ(lines.size(), full + 200 + 2);
  EXPECT_EQ(lines[full + 200]["message"],
            std::to_string(1000 + 1 + 1000 - AuditLog::kMaxRefusals) + " other refusals within a second are left out");
  EXPECT_EQ(lines.back()["who"], "ada") << "the next second's";
  (*log)->writeRefusal(refusal("ada", "job-1"), at(11'001));
  log->reset();
  EXPECT_EQ(linesOf(path).back()["message"], "1 more within a second; the last: there is none") << "at the end as well";
}

TEST(AuditLog, NamesWhatACallIsAboutAndNoSecret) {
  v1::CancelJobRequest cancel;
  cancel.set_id("job-7");
  EXPECT_EQ(methodOf(cancel), "CancelJob");
  EXPECT_EQ(resourceOf(cancel), "job-7");
  v1::CreateTokenResponse made;
  made.mutable_token()->set_id("token-5");
  made.mutable_token()->set_name("ada");
  made.set_secret("tessera-secret");
  EXPECT_EQ(resourceOf(made), "token-5");
  v1::ExecuteSpec spec;
  spec.set_artifact_id("abc");
  v1::CreateJobRequest request;
  *request.mutable_execute() = spec;
  request.set_request_id("r1");
  EXPECT_EQ(resourceOf(request), "r1");
}

}  // namespace
}  // namespace tessera::server
