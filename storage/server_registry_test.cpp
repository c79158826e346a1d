#include "storage/server_registry.h"

#include <google/protobuf/util/time_util.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/support/status_macros.h"
#include "storage/conformance/samples.h"
#include "storage/postgres_store.h"
#include "storage/testing/postgres_server.h"

namespace tessera::storage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

ServerIdentity identity(const std::string& id, const std::string& process) {
  ServerIdentity self;
  self.server.set_id(id);
  self.server.set_address(absl::StrCat(id, ":7400"));
  self.server.set_release("1.0");
  self.home = absl::StrCat("home of ", id);
  self.instance = process;
  return self;
}

std::vector<std::string> idsOf(const absl::StatusOr<Page<v1::Server>>& page) {
  EXPECT_OK(page.status());
  std::vector<std::string> ids;
  if (page.ok()) {
    for (const v1::Server& server : page->items) ids.push_back(server.id());
  }
  return ids;
}

TEST(LocalServerRegistry, OneServerHasAllDuties) {
  const auto registry = openLocalServerRegistry();
  const ServerIdentity self = identity("main", "1");
  const auto news = registry->beat(self, {.wanted = {"a", "b"}});
  ASSERT_OK(news.status());
  EXPECT_THAT(news->held, ElementsAre(Pair("a", 1), Pair("b", 1)));
  EXPECT_THAT(news->others, IsEmpty());
  EXPECT_FALSE(registry->isShared());
  const auto page = registry->list({});
  EXPECT_THAT(idsOf(page), ElementsAre("main"));
  EXPECT_THAT(page->items[0].duties(), ElementsAre("a", "b"));
  EXPECT_EQ(page->items[0].state(), v1::Server::LIVE);
}

TEST(PageOfServers, IsFilteredOrderedAndPaged) {
  std::vector<v1::Server> servers;
  for (const char* id : {"b", "a", "c"}) {
    servers.push_back(identity(id, "1").server);
    servers.back().set_state(servers.size() == 2 ? v1::Server::SILENT : v1::Server::LIVE);
    *servers.back().mutable_start_time() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(static_cast<int64_t>(servers.size()) * 1'000'000);
  }
  EXPECT_THAT(idsOf(pageOfServers(servers, "key", {})), ElementsAre("a", "b", "c"));
  EXPECT_THAT(idsOf(pageOfServers(servers, "key", {0, "", "state = LIVE AND release = \"1.0\"", "start_time desc"})),
              ElementsAre("c", "b"));
  const auto first = pageOfServers(servers, "key", {2, "", "", ""});
  EXPECT_THAT(idsOf(first), ElementsAre("a", "b"));
  EXPECT_THAT(idsOf(pageOfServers(servers, "key", {2, first->next_page_token, "", ""})), ElementsAre("c"));
  EXPECT_TRUE(absl::IsInvalidArgument(pageOfServers(servers, "other", {2, first->next_page_token, "", ""}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(pageOfServers(servers, "key", {0, "", "color = 3", ""}).status()));
}

class PostgresServerRegistryTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto& server = PostgresServer::shared();
    if (absl::IsNotFound(server.status())) GTEST_SKIP() << server.status();
    ASSERT_OK(server.status());
    uri_ = *(*server)->createDatabase();
    ASSERT_OK(openPostgresStore(uri_).status());
    one_ = open();
    other_ = open();
  }
  std::unique_ptr<ServerRegistry> open() const {
    auto registry = openPostgresServerRegistry(uri_);
    EXPECT_OK(registry.status());
    return *std::move(registry);
  }
  void query(const std::string& sql) const { EXPECT_OK((*PostgresServer::shared())->query(uri_, sql).status()); }
  /// Lets the present heartbeats and duties last, so that a slow machine changes nothing.
  void keep() const {
    query("UPDATE servers SET seen = now() + interval '1 hour'");
    query("UPDATE server_duties SET expires = now() + interval '1 hour' WHERE holder <> ''");
  }
  /// Lets a server's heartbeat be so long ago that it counts as ended.
  void silence(const std::string& id) const {
    query(absl::StrCat("UPDATE servers SET seen = now() - interval '6 s' WHERE id = '", id, "'"));
    query(absl::StrCat("UPDATE server_duties SET expires = now() - interval '1 s' WHERE holder = '", id, "'"));
  }
  ServerNews beat(ServerRegistry& registry, const ServerIdentity& self, const ServerReport& report = {}) {
    auto news = registry.beat(self, report);
    EXPECT_OK(news.status());
    return news.ok() ? *std::move(news) : ServerNews();
  }

  std::string uri_;
  std::unique_ptr<ServerRegistry> one_, other_;
  const ServerIdentity a_ = identity("a", "a1"), b_ = identity("b", "b1");
};

TEST_F(PostgresServerRegistryTest, ADutyHasOneHolderAndARisingToken) {
  EXPECT_THAT(beat(*one_, a_, {.wanted = {"sweeping"}}).held, ElementsAre(Pair("sweeping", 1)));
  keep();
  EXPECT_THAT(beat(*other_, b_, {.wanted = {"sweeping", "scrubbing"}}).held, ElementsAre(Pair("scrubbing", 1)));
  EXPECT_THAT(beat(*one_, a_, {.wanted = {"sweeping"}}).held, ElementsAre(Pair("sweeping", 1))) << "renewed";
  silence("a");
  EXPECT_THAT(beat(*other_, b_, {.wanted = {"sweeping"}}).held, ElementsAre(Pair("sweeping", 2)));
  keep();
  EXPECT_THAT(beat(*one_, a_, {.wanted = {"sweeping"}}).held, IsEmpty()) << "it is back, and too late";
  ASSERT_OK(other_->endDuty(b_, "sweeping", false));
  EXPECT_THAT(beat(*one_, a_, {.wanted = {"sweeping"}}).held, ElementsAre(Pair("sweeping", 3)));
}

TEST_F(PostgresServerRegistryTest, OfManyServersThatTakeAnExpiredDutyOneGetsIt) {
  constexpr int kServers = 6, kRounds = 5;
  std::vector<std::unique_ptr<ServerRegistry>> registries;
  for (int i = 0; i < kServers; ++i) registries.push_back(open());
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> holders = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kServers; ++i) {
      threads.emplace_back([&, i] {
        const std::string id = absl::StrCat("s", i);
        holders += static_cast<int>(beat(*registries[i], identity(id, id), {.wanted = {"duty"}}).held.size());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(holders, 1) << "round " << round;
    query("UPDATE server_duties SET expires = '-infinity', holder = '', instance = ''");
  }
}

TEST_F(PostgresServerRegistryTest, AnotherServerCannotTakeALiveServersName) {
  (void)beat(*one_, a_);
  keep();
  ServerIdentity thief = identity("a", "a2");
  thief.home = "elsewhere";
  EXPECT_TRUE(absl::IsFailedPrecondition(other_->beat(thief, {}).status()));
  EXPECT_THAT(beat(*one_, identity("a", "a2"), {.wanted = {"d"}}).held, ElementsAre(Pair("d", 1))) << "restarted";
  silence("a");
  EXPECT_OK(other_->beat(thief, {}).status());
}

TEST_F(PostgresServerRegistryTest, ServersSeeEachOtherUntilTheyAreSilentOrLeave) {
  (void)beat(*one_, a_, {.wanted = {"sweeping"}});
  keep();
  EXPECT_THAT(beat(*other_, b_).others, ElementsAre("a"));
  keep();
  EXPECT_THAT(beat(*one_, a_).others, ElementsAre("b"));
  keep();
  const auto both = one_->list({});
  ASSERT_THAT(idsOf(both), ElementsAre("a", "b"));
  EXPECT_THAT(both->items[0].duties(), ElementsAre("sweeping"));
  silence("a");
  EXPECT_THAT(beat(*other_, b_).others, IsEmpty());
  EXPECT_THAT(idsOf(other_->list({0, "", "state = SILENT", ""})), ElementsAre("a"));
  ServerIdentity draining = b_;
  draining.draining = true;
  (void)beat(*other_, draining);
  keep();
  EXPECT_THAT(idsOf(one_->list({0, "", "state = DRAINING", ""})), ElementsAre("b"));
  ASSERT_OK(other_->leave(b_));
  EXPECT_THAT(idsOf(one_->list({})), ElementsAre("a"));
}

TEST_F(PostgresServerRegistryTest, CallsAreSummedOverTheOthers) {
  const ServerIdentity c = identity("c", "c1");
  (void)beat(*one_, a_, {.calls = {{"vision", 3}, {"speech", 1}}});
  (void)beat(*other_, b_, {.calls = {{"vision", 4}}});
  EXPECT_THAT(beat(*one_, c).calls_elsewhere, ElementsAre(Pair("speech", 1), Pair("vision", 7)));
  (void)beat(*one_, a_, {.calls = {{"vision", 5}}});
  EXPECT_THAT(beat(*other_, b_).calls_elsewhere, ElementsAre(Pair("speech", 1), Pair("vision", 5)));
  ASSERT_OK(one_->leave(a_));
  EXPECT_THAT(beat(*other_, b_).calls_elsewhere, IsEmpty());
}

TEST_F(PostgresServerRegistryTest, TheFirstValueStaysAndRunsAreRemembered) {
  const std::string bytes("\0\\x\xff", 4);
  EXPECT_TRUE(absl::IsNotFound(one_->value("key").status()));
  EXPECT_EQ(*one_->valueOrInsert("key", bytes), bytes);
  EXPECT_EQ(*other_->valueOrInsert("key", "other"), bytes);
  ASSERT_OK(other_->setValue("key", "new"));
  EXPECT_EQ(*one_->value("key"), "new");

  EXPECT_THAT(beat(*one_, a_, {.wanted = {"retention"}}).done_us, IsEmpty());
  keep();
  ASSERT_OK(other_->noteDone(b_, "retention"));
  EXPECT_THAT(beat(*other_, b_).done_us, IsEmpty()) << "by a server that does not hold it";
  ASSERT_OK(one_->noteDone(a_, "retention"));
  EXPECT_EQ(beat(*other_, b_).done_us.size(), 1u);
}

TEST_F(PostgresServerRegistryTest, ChangesOfTokensAreCounted) {
  const auto store = *openPostgresStore(uri_);
  const int64_t before = beat(*one_, a_).token_changes;
  StoredToken stored;
  stored.token.set_id("token-1");
  stored.sha256 = std::string(64, '0');
  ASSERT_OK(store->transact([&](Transaction& t) { return t.putToken(stored); }));
  const int64_t created = beat(*one_, a_).token_changes;
  EXPECT_GT(created, before);
  stored.token.set_revoke_time_us(1);
  ASSERT_OK(store->transact([&](Transaction& t) { return t.putToken(stored); }));
  EXPECT_GT(beat(*one_, a_).token_changes, created);
}

TEST_F(PostgresServerRegistryTest, ALostConnectionIsReplaced) {
  (void)beat(*one_, a_);
  query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name "
      "= 'tesserad'");
  EXPECT_OK(one_->beat(a_, {}).status());
  const auto offset_us = one_->clockOffsetMicros();
  ASSERT_OK(offset_us.status());
  EXPECT_LT(std::abs(*offset_us), 1'000'000) << "the same machine";
}

}  // namespace
}  // namespace tessera::storage
