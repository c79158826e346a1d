#include "server/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::server {
namespace {

/// A registry whose answers the test sets.
class FakeRegistry : public storage::ServerRegistry {
 public:
  bool isShared() const override { return true; }
  absl::StatusOr<storage::ServerNews> beat(const storage::ServerIdentity& self,
                                           const storage::ServerReport& report) override {
    last_report = report;
    draining = self.draining;
    if (!status.ok()) {
      return status;
    }
    storage::ServerNews answer = news;
    for (const std::string& duty : report.wanted) {
      if (!taken.contains(duty)) {
        answer.held[duty] = 1;
      }
    }
    return answer;
  }
  absl::Status endDuty(const storage::ServerIdentity&, const std::string& duty, bool) override {
    ended.insert(duty);
    return absl::OkStatus();
  }
  absl::Status noteDone(const storage::ServerIdentity&, const std::string&) override { return absl::OkStatus(); }
  absl::Status leave(const storage::ServerIdentity&) override {
    left = true;
    return absl::OkStatus();
  }
  absl::StatusOr<storage::Page<v1::Server>> list(const storage::ListQuery&) override {
    return storage::Page<v1::Server>();
  }
  absl::StatusOr<std::string> value(const std::string&) override { return absl::NotFoundError(""); }
  absl::Status setValue(const std::string&, std::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<std::string> valueOrInsert(const std::string&, std::string_view value) override {
    return std::string(value);
  }
  absl::StatusOr<int64_t> clockOffsetMicros() override { return 0; }

  storage::ServerNews news;
  storage::ServerReport last_report;
  std::set<std::string> taken, ended;  ///< duties of other servers; duties that this one gave up
  absl::Status status;
  bool draining = false, left = false;
};

class MembershipTest : public testing::Test {
 protected:
  /// One more heartbeat.
  static void beat(Membership& membership) { membership.setAddress("here:1"); }

  FakeRegistry registry_;
  int others_ended_ = 0, tokens_changed_ = 0;
  std::map<std::string, int64_t> calls_, elsewhere_;
  Membership membership_{registry_,
                         {},
                         {kSweeping, kScrubbing},
                         {.others_ended = [this] { ++others_ended_; },
                          .tokens_changed = [this] { ++tokens_changed_; },
                          .calls = [this] { return calls_; },
                          .calls_elsewhere = [this](const auto& calls) { elsewhere_ = calls; }},
                         std::chrono::hours(1)};
};

TEST_F(MembershipTest, ADutyIsHeldWhileHeartbeatsGrantIt) {
  registry_.taken = {kScrubbing};
  EXPECT_FALSE(membership_.holds(kSweeping)) << "before the first heartbeat";
  ASSERT_TRUE(membership_.join().ok());
  EXPECT_TRUE(membership_.holds(kSweeping));
  EXPECT_FALSE(membership_.holds(kScrubbing));
  EXPECT_FALSE(membership_.holds(kCollection)) << "not wanted";
  registry_.taken = {kSweeping};
  beat(membership_);
  EXPECT_FALSE(membership_.holds(kSweeping));
  EXPECT_TRUE(membership_.holds(kScrubbing));
}

TEST_F(MembershipTest, ADutyForAWhileIsTakenOnce) {
  ASSERT_TRUE(membership_.join().ok());
  EXPECT_TRUE(*membership_.take(kCollection));
  EXPECT_FALSE(*membership_.take(kCollection)) << "by another thread of this server";
  membership_.end(kCollection);
  EXPECT_TRUE(registry_.ended.contains(kCollection));
  EXPECT_FALSE(membership_.holds(kCollection));
  registry_.taken = {kCollection};
  EXPECT_FALSE(*membership_.take(kCollection)) << "by another server";
  registry_.taken.clear();
  beat(membership_);
  EXPECT_FALSE(membership_.holds(kCollection)) << "what was refused does not come later";
  registry_.status = absl::UnavailableError("no database");
  EXPECT_TRUE(absl::IsUnavailable(membership_.take(kCollection).status()));
}

TEST_F(MembershipTest, TheEndOfAServerAndChangesOfTokensAreAnnounced) {
  registry_.news.others = {"b", "c"};
  ASSERT_TRUE(membership_.join().ok());
  EXPECT_TRUE(membership_.hasOthers());
  registry_.news.others = {"b", "c", "d"};
  beat(membership_);
  EXPECT_EQ(others_ended_, 0);
  registry_.news.others = {"b", "d", "e"};
  beat(membership_);
  EXPECT_EQ(others_ended_, 1);
  EXPECT_EQ(tokens_changed_, 0);
  registry_.news.token_changes = 7;
  beat(membership_);
  EXPECT_EQ(tokens_changed_, 1);
}

TEST_F(MembershipTest, CallsAreReportedWhenTheyChange) {
  calls_ = {{"vision", 3}, {"speech", 0}};
  registry_.news.calls_elsewhere = {{"vision", 8}};
  ASSERT_TRUE(membership_.join().ok());
  EXPECT_THAT(registry_.last_report.calls, testing::ElementsAre(testing::Pair("vision", 3)));
  EXPECT_EQ(elsewhere_.at("vision"), 8);
  beat(membership_);
  EXPECT_TRUE(registry_.last_report.calls.empty());
  calls_["vision"] = 4;
  registry_.status = absl::UnavailableError("no database");
  beat(membership_);
  registry_.status = absl::OkStatus();
  beat(membership_);
  EXPECT_THAT(registry_.last_report.calls, testing::ElementsAre(testing::Pair("vision", 4)));
}

TEST_F(MembershipTest, DrainingLeavesDutiesToOtherServersIfThereAreSome) {
  ASSERT_TRUE(membership_.join().ok());
  membership_.drain();
  EXPECT_TRUE(registry_.draining);
  EXPECT_TRUE(membership_.holds(kSweeping)) << "alone";
  registry_.news.others = {"b"};
  beat(membership_);
  membership_.drain();
  EXPECT_FALSE(membership_.holds(kSweeping));
  EXPECT_TRUE(registry_.ended.contains(kSweeping) && registry_.ended.contains(kScrubbing));
  membership_.leave();
  EXPECT_TRUE(registry_.left);
}

}  // namespace
}  // namespace tessera::server
