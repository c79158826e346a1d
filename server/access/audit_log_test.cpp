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
