// Blobs are read at the given rate; damaged ones are set aside and named, and are sound again after another upload.
#include "server/retention/scrubber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/retention/collector.h"
#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class Scrub : public testing::Test {
 protected:
  v1::Digest put(const std::string& bytes) { return bench_.put(bytes); }
  /// Changes one byte of the blob's file like a faulty disk: size and times stay.
  void damage(const v1::Digest& digest, std::streamoff at) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(bench_.folder.path() + "/blobs")) {
      if (entry.path().filename() != digest.sha256()) continue;
      const auto before = std::filesystem::last_write_time(entry.path());
      {
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(at);
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(at);
        file.put(byte);
      }
      std::filesystem::last_write_time(entry.path(), before);
      return;
    }
    FAIL() << "no file of " << digest.sha256();
  }
  absl::StatusOr<Scrubber::Found> pass(int64_t rate = 1 << 20) {
    Scrubber scrubber(*bench_.store, *bench_.blobs, rate,
                      {.damaged = [&](const std::string& sha256, const std::string&) { named_.push_back(sha256); }});
    return scrubber.pass([&](double seconds) {
      if (meanwhile_) std::exchange(meanwhile_, nullptr)();
      waited_s_ += seconds;
      return --waits_left_ >= 0;
    });
  }

  SchedulerFixture bench_;
  std::vector<std::string> named_;
  double waited_s_ = 0;
  int waits_left_ = 1000;
  std::function<void()> meanwhile_;  ///< runs once, when the pass has begun
};

TEST_F(Scrub, TakesAsLongAsItsRateSays) {
  put(std::string(3'000'000, 'a'));
  put(std::string(1'000'001, 'b'));
  put("");
  const auto found = pass(1'000'000);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->blobs, 3);
  EXPECT_EQ(found->bytes, 4'000'001);
  EXPECT_EQ(found->damaged, 0);
  EXPECT_NEAR(waited_s_, 4.0, 0.001);
}

TEST_F(Scrub, ADamagedBlobIsNamedSetAsideAndSentAgain) {
  const std::string bytes(2'500'000, 'x');
  const v1::Digest sound = put("sound"), first = put(bytes), last = put(bytes + "y");
  damage(first, 0);
  damage(last, 2'500'000);
  auto found = pass();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->damaged, 2);
  EXPECT_THAT(named_, testing::UnorderedElementsAre(first.sha256(), last.sha256()));
  EXPECT_FALSE(bench_.blobs->contains(first.sha256()));
  EXPECT_TRUE(bench_.blobs->contains(sound.sha256()));

  // A later verification reports it without reading any blob.
  Collector collector(*bench_.store, *bench_.blobs, bench_.clock);
  auto verified = collector.verify(false);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_THAT(verified->problems(), Contains(HasSubstr(first.sha256() + " was damaged on disk and set aside")));

  put(bytes);
  put(bytes + "y");
  verified = collector.verify(true);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_THAT(verified->problems(), IsEmpty());
  named_.clear();
  found = pass();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->damaged, 0);
  EXPECT_THAT(named_, IsEmpty());
}

TEST_F(Scrub, ARowWithoutBytesSaysSoFromThenOn) {
  const v1::Digest sound = put("sound"), gone = put("gone");
  ASSERT_TRUE(bench_.blobs->remove(gone.sha256()).ok());
  const auto isThere = [&](const v1::Digest& digest) {
    bool there = false;
    EXPECT_TRUE(bench_.store
                    ->read([&](storage::Reader& reader) -> absl::Status {
                      there = *reader.hasBlob(digest.sha256());
                      return absl::OkStatus();
                    })
                    .ok());
    return there;
  };
  EXPECT_TRUE(isThere(gone)) << "nobody has looked";
  const auto found = pass();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->damaged, 1);
  EXPECT_THAT(named_, testing::ElementsAre(gone.sha256()));
  EXPECT_FALSE(isThere(gone));
  EXPECT_TRUE(isThere(sound));
  EXPECT_EQ(pass()->damaged, 0) << "it is told once";
  put("gone");
  EXPECT_TRUE(isThere(gone));
}

TEST_F(Scrub, WhatIsDeletedMeanwhileIsNoLoss) {
  const v1::Digest deleted = put("deleted");
  meanwhile_ = [&] {
    std::thread([&] {  // while the scrubber is reading
      EXPECT_TRUE(
          bench_.store
              ->transact([&](storage::Transaction& tx) { return tx.erase(storage::Kind::kBlob, deleted.sha256()); })
              .ok());
      EXPECT_TRUE(bench_.blobs->remove(deleted.sha256()).ok());
    })
        .join();
  };
  const auto found = pass();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->damaged, 0);
  EXPECT_THAT(named_, IsEmpty());
}

TEST_F(Scrub, EndsWithinAChunk) {
  put(std::string(10 << 20, 'a'));
  waits_left_ = 2;
  EXPECT_TRUE(absl::IsCancelled(pass().status()));
  EXPECT_LT(waited_s_, 4);
}

}  // namespace
}  // namespace tessera::server
