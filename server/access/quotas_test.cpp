#include "server/access/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "proto/messages/failure.h"
#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

class QuotasFile : public testing::Test {
 protected:
  /// Writes a new file each time, with another time of change.
  void write(const std::string& text) {
    std::ofstream(path()) << text;
    std::filesystem::last_write_time(path(),
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++writes_));
  }
  /// Refreshes twice: a change is accepted once it is unchanged between two calls.
  static absl::Status look(Quotas& quotas) {
    EXPECT_TRUE(quotas.refresh().ok()) << "it may not be whole yet";
    return quotas.refresh();
  }
  std::string path() const { return folder_.path() + "/quotas.textproto"; }

  ScratchFolder folder_;
  int writes_ = 0;
  FakeClock clock_;
};

TEST_F(QuotasFile, IsReadWhenItChangesAndStandsWhileItIsWrong) {
  write("default { queued_jobs: 7 } of { project: \"vision\" quota { queued_jobs: 3 calls_per_second: 2 } }");
  Quotas quotas(clock_, path());
  ASSERT_TRUE(quotas.refresh().ok());
  EXPECT_EQ(quotas.of("vision").queued_jobs(), 3);
  EXPECT_EQ(quotas.of("speech").queued_jobs(), 7);
  for (const char* wrong : {"of { project: \"vision\" quota { queued_jobs: three } }", "of { project: \"Vi sion\" }",
                            "of { project: \"a\" } of { project: \"a\" }", "default { stored_bytes: -1 }",
                            "default { calls_per_second: nan }"}) {
    write(wrong);
    const absl::Status status = look(quotas);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
    EXPECT_TRUE(quotas.refresh().ok()) << "told once";
    EXPECT_EQ(quotas.of("vision").queued_jobs(), 3) << wrong;
  }
  write("default { queued_jobs: 1 }");
  ASSERT_TRUE(look(quotas).ok());
  EXPECT_EQ(quotas.of("vision").queued_jobs(), 1);
  EXPECT_TRUE(quotas.named().empty());
}

TEST_F(QuotasFile, CallsAtOtherServersCount) {
  write("default { calls_per_second: 10 }");
  Quotas quotas(clock_, path());
  ASSERT_TRUE(quotas.refresh().ok());
  const auto admitted = [&] {
    int calls = 0;
    while (quotas.takeCall("vision").ok()) {
      ++calls;
    }
    return calls;
  };
  quotas.countElsewhere({{"vision", 1000}});
  EXPECT_EQ(admitted(), 10) << "the first sum says nothing about the present";
  clock_.advance(1'000'000);
  quotas.countElsewhere({{"vision", 1004}});
  EXPECT_EQ(admitted(), 6);
  clock_.advance(1'000'000);
  quotas.countElsewhere({{"vision", 1024}});
  EXPECT_EQ(admitted(), 0) << "the others admitted the calls of two seconds";
  clock_.advance(1'000'000);
  quotas.countElsewhere({{"vision", 7}});
  EXPECT_EQ(admitted(), 0) << "the second second is used up too; a server that left gives nothing back";
  clock_.advance(500'000);
  EXPECT_EQ(admitted(), 5);
  EXPECT_EQ(quotas.callsTaken().at("vision"), 10 + 6 + 5);
  quotas.countElsewhere({{"vision", 7'000'000}});
  clock_.advance(11'000'000);
  EXPECT_GT(admitted(), 0) << "the debt is bounded";
}

TEST_F(QuotasFile, AFileThatIsBeingWrittenIsWaitedFor) {
  write("default { queued_jobs: 7 }");
  Quotas quotas(clock_, path());
  ASSERT_TRUE(quotas.refresh().ok());
  for (const char* part : {"", "default { queued", "default { queued_jobs: 1", "default { queued_jobs: 12 }"}) {
    write(part);
    EXPECT_TRUE(quotas.refresh().ok()) << part;
    EXPECT_EQ(quotas.of("vision").queued_jobs(), 7) << part;
  }
  EXPECT_TRUE(quotas.refresh().ok());
  EXPECT_EQ(quotas.of("vision").queued_jobs(), 12);
}

TEST_F(QuotasFile, OneThatIsGoneOrEmptyChangesNothingAndIsToldOnce) {
  write("default { queued_jobs: 7 }");
  Quotas quotas(clock_, path());
  ASSERT_TRUE(quotas.refresh().ok());
  for (const bool gone : {true, false}) {
    if (gone) {
      std::filesystem::rename(path(), path() + ".away");
    } else {
      write("");
    }
    EXPECT_THAT(std::string(look(quotas).message()), HasSubstr(path()));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(quotas.refresh().ok()) << "told once";
    EXPECT_EQ(quotas.of("vision").queued_jobs(), 7);
  }
  write("# none\n");
  EXPECT_TRUE(look(quotas).ok());
  EXPECT_EQ(quotas.of("vision").queued_jobs(), 0);
  std::filesystem::rename(path() + ".away", path());  // another file, with an older time
  EXPECT_TRUE(look(quotas).ok());
  EXPECT_EQ(quotas.of("vision").queued_jobs(), 7);
}

TEST_F(QuotasFile, AFolderInItsPlaceEndsNothing) {
  write("default { queued_jobs: 7 }");
  Quotas quotas(clock_, path());
  ASSERT_TRUE(quotas.refresh().ok());
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(std::string(look(quotas).message()), HasSubstr(path()));
  EXPECT_EQ(quotas.of("vision").queued_jobs(), 7);
  std::filesystem::remove(path());
}

TEST_F(QuotasFile, CallsFillUpWithTimeAndEachProjectHasItsOwn) {
  write("of { project: \"vision\" quota { calls_per_second: 4 } }");
  Quotas quotas(clock_, path());
  ASSERT_TRUE(quotas.refresh().ok());
  for (int call = 0; call < 4; ++call) EXPECT_TRUE(quotas.takeCall("vision").ok()) << call;
  const absl::Status refused = quotas.takeCall("vision");
  ASSERT_TRUE(absl::IsResourceExhausted(refused));
  const v1::Failure failure = failureOf(refused);
  EXPECT_EQ(failure.reason(), v1::Failure::QUOTA_EXCEEDED);
  EXPECT_EQ(failure.attribute(), "calls_per_second");
  EXPECT_EQ(failure.retry_after_us(), 250'000);
  for (int call = 0; call < 100; ++call) EXPECT_TRUE(quotas.takeCall("speech").ok());
  clock_.advance(failure.retry_after_us() - 1);
  EXPECT_FALSE(quotas.takeCall("vision").ok());
  clock_.advance(1);
  EXPECT_TRUE(quotas.takeCall("vision").ok()) << "after as long as it was told";
  EXPECT_FALSE(quotas.takeCall("vision").ok());
  clock_.advance(int64_t{3600} * 1'000'000);
  for (int call = 0; call < 4; ++call) EXPECT_TRUE(quotas.takeCall("vision").ok()) << call;
  EXPECT_FALSE(quotas.takeCall("vision").ok()) << "what was not used for an hour is not saved";
}

TEST(QuotaRefusals, NoCountFallsWhoeverHasANameOfItsOwn) {
  QuotaRefusals refusals;
  std::map<std::pair<std::string, std::string>, int64_t> last;
  int64_t in_all = 0;
  const auto refuse = [&](const std::string& project, const std::string& quota, int times) {
    for (int i = 0; i < times; ++i) {
      refusals.note(project, quotaExceeded(project, quota, 1, 1, 1, ""));
      ++in_all;
      const QuotaRefusals::Counts counts = refusals.counts();
      auto now = counts.named;
      for (const auto& [name, count] : counts.others) now[{"(others)", name}] = count;
      for (const auto& [key, count] : now) {
        EXPECT_GE(count, last[key]) << key.first << " " << key.second;
        last[key] = count;
      }
      EXPECT_LE(counts.projects.size(), QuotaRefusals::kNamed);
    }
  };
  refusals.note("p", absl::ResourceExhaustedError("of another kind"));
  EXPECT_TRUE(refusals.counts().named.empty());
  for (size_t i = 0; i < QuotaRefusals::kNamed; ++i) refuse("p" + std::to_string(i), "queued_jobs", i == 7 ? 1 : 3);
  EXPECT_TRUE(refusals.counts().others.empty());
  EXPECT_TRUE(refusals.counts().all_named) << "every name is taken, and nobody is without one";
  refuse("late", "queued_jobs", 2);
  EXPECT_FALSE(refusals.counts().all_named);
  EXPECT_EQ(refusals.counts().others.at("queued_jobs"), 2) << "no more often than p7 and its like";
  refuse("late", "stored_bytes", 4);
  EXPECT_EQ(refusals.counts().named.count({"p7", "queued_jobs"}), 0u) << "told least";
  EXPECT_EQ(refusals.counts().named.at({"late", "stored_bytes"}), 4);
  EXPECT_EQ(refusals.counts().others.at("queued_jobs"), 2) << "what is among the others stays there";
  refuse("p7", "queued_jobs", 12);
  EXPECT_GT(refusals.counts().named.at({"p7", "queued_jobs"}), 1) << "on from where it was";
  int64_t counted = 0;
  for (const auto& [key, count] : last) counted += count;
  EXPECT_EQ(counted, in_all) << "each once";
}

}  // namespace
}  // namespace tessera::server
