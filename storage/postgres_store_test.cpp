#include "storage/postgres_store.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/support/status_macros.h"
#include "storage/conformance/samples.h"
#include "storage/postgres/database.h"
#include "storage/postgres/dialect.h"
#include "storage/sql/transaction.h"
#include "storage/testing/postgres_server.h"

namespace tessera::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PostgresServer& server() { return **PostgresServer::shared(); }

/// A new database with the tables of the service, copied from one that was migrated.
std::string newDatabase() {
  static const std::string migrated = [] {
    const std::string uri = *server().createDatabase();
    EXPECT_OK(openPostgresStore(uri).status());
    return *server().query(uri, "SELECT current_database()");
  }();
  return *server().createDatabase(migrated);
}

std::unique_ptr<Store> openStore(const std::string& uri, const PostgresStoreOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<Store>> store = openPostgresStore(uri, options);
  EXPECT_OK(store.status());
  return store.ok() ? *std::move(store) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(
    Postgres, StoreConformance,
    testing::Values(StoreKind{"Postgres", [] { return openStore(newDatabase()); }},
                    StoreKind{"EachBodyTwice", [] { return openStore(newDatabase(), {.run_bodies_twice = true}); }}),
    [](const auto& kind) { return kind.param.name; });

class PostgresStoreTest : public testing::Test {
 protected:
  void SetUp() override { uri_ = newDatabase(); }
  /// Ends all sessions of stores on this database, as a failing network or database does.
  void endSessions() const {
    EXPECT_OK(
        server()
            .query(uri_,
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
                   "application_name = 'tesserad'")
            .status());
  }
  std::string uri_;
};

absl::Status countUp(Transaction& t) {
  absl::StatusOr<v1::Task> task = t.getTask("counter");
  if (!task.ok()) return task.status();
  task->set_fencing_token(task->fencing_token() + 1);
  return t.putTask(*task);
}

TEST_F(PostgresStoreTest, ServersThatStartAtOnceMigrateOnce) {
  uri_ = *server().createDatabase();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_OK(openPostgresStore(uri_).status()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*server().query(uri_, "SELECT string_agg(name, ' ' ORDER BY version) FROM schema_version"), "0001_initial");
}

TEST_F(PostgresStoreTest, ANewerSchemaIsUsedIfItsMigrationsAllowThat) {
  ASSERT_OK(server().query(uri_, "INSERT INTO schema_version VALUES (2, '0002_wider', now(), 1)").status());
  EXPECT_OK(openPostgresStore(uri_).status());
  ASSERT_OK(server().query(uri_, "INSERT INTO schema_version VALUES (3, '0003_narrower', now(), 2)").status());
  const absl::Status refused = openPostgresStore(uri_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("newer release (schema 3, this release knows up to 1)"));
}

TEST_F(PostgresStoreTest, ADatabaseThatCannotBeReachedIsNamed) {
  const absl::Status status = openPostgresStore("postgresql:///nowhere?host=/nonexistent").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent"));
}

TEST_F(PostgresStoreTest, TwoServersLeaseEachTaskOnce) {
  constexpr int kTasks = 120;
  const auto one = openStore(uri_);
  const auto other = openStore(uri_);
  ASSERT_OK(one->transact([&](Transaction& t) {
    for (int i = 0; i < kTasks; ++i) EXPECT_OK(t.putTask(sampleTask(absl::StrCat("task ", i))));
    return absl::OkStatus();
  }));
  std::mutex mutex;
  std::multiset<std::string> leased;
  std::vector<std::thread> threads;
  for (Store* store : {one.get(), other.get(), one.get(), other.get()}) {
    threads.emplace_back([&, store] {
      while (true) {
        std::string id;
        const absl::Status status = store->transact([&](Transaction& t) -> absl::Status {
          TESSERA_ASSIGN_OR_RETURN(v1::Task task, t.claimReadyTask({}));
          id = task.id();
          task.set_state(v1::Task::LEASED);
          task.set_fencing_token(task.fencing_token() + 1);
          return t.putTask(task);
        });
        if (absl::IsNotFound(status)) return;
        EXPECT_OK(status);
        const std::lock_guard lock(mutex);
        leased.insert(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(leased.size(), kTasks);
  EXPECT_EQ(std::set<std::string>(leased.begin(), leased.end()).size(), kTasks) << "none twice";
  const auto tasks = readOne(*one, [](Reader& r) { return r.leasedTasks(); });
  for (const v1::Task& task : *tasks) EXPECT_EQ(task.fencing_token(), 1) << task.id();
}

TEST_F(PostgresStoreTest, ATaskThatAnotherTransactionClaimedIsSkipped) {
  const auto one = openStore(uri_);
  const auto other = openStore(uri_);
  ASSERT_OK(one->transact([&](Transaction& t) {
    EXPECT_OK(t.putTask(sampleTask("first", v1::BUILD, 0, 1)));
    return t.putTask(sampleTask("second", v1::BUILD, 0, 2));
  }));
  ASSERT_OK(one->transact([&](Transaction& t) {
    EXPECT_EQ(t.claimReadyTask({})->id(), "first");
    EXPECT_OK(other->transact([&](Transaction& within) {
      EXPECT_EQ(within.claimReadyTask({})->id(), "second") << "without waiting";
      return absl::OkStatus();
    }));
    return absl::OkStatus();
  }));
}

TEST_F(PostgresStoreTest, TwoServersLoseNoUpdate) {
  constexpr int kEach = 50;
  const auto one = openStore(uri_);
  const auto other = openStore(uri_);
  ASSERT_OK(one->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  std::vector<std::thread> threads;
  for (Store* store : {one.get(), other.get()}) {
    threads.emplace_back([store] {
      for (int i = 0; i < kEach; ++i) EXPECT_OK(store->transact(countUp));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(readOne(*other, [](Reader& r) { return r.getTask("counter"); })->fencing_token(), 2 * kEach);
}

TEST_F(PostgresStoreTest, OfTwoServersThatInsertTheSameRequestOneIsRefused) {
  const auto one = openStore(uri_);
  const auto other = openStore(uri_);
  const auto submit = [](const std::string& id) {
    return [id](Transaction& t) -> absl::Status {
      // As admission does: a known request is answered with its job.
      if (t.getJobByRequestId("default", "the request").ok()) return absl::AlreadyExistsError("known");
      v1::Job job = sampleJob(id);
      job.set_request_id("the request");
      return t.insertJob(job, "hash", "");
    };
  };
  bool raced = false;
  absl::Status result;
  ASSERT_OK(one->transact([&](Transaction& t) -> absl::Status {
    EXPECT_TRUE(absl::IsNotFound(t.getJob("x").status())) << "the snapshot is taken";
    if (!std::exchange(raced, true)) {
      EXPECT_OK(other->transact(submit("of other")));
    }
    result = submit("of one")(t);
    return absl::OkStatus();
  }));
  EXPECT_TRUE(absl::IsAlreadyExists(result)) << "in the run that was committed: " << result;
  EXPECT_EQ(readOne(*one, [](Reader& r) { return r.listJobs({}); })->items.size(), 1u);
  EXPECT_OK(readOne(*one, [](Reader& r) { return r.getJob("of other"); }).status());
}

TEST_F(PostgresStoreTest, ALostConnectionWithinABodyRepeatsIt) {
  const auto store = openStore(uri_);
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  int runs = 0;
  ASSERT_OK(store->transact([&](Transaction& t) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(countUp(t));
    if (++runs == 1) endSessions();
    return countUp(t);
  }));
  EXPECT_EQ(runs, 2);
  int reads = 0;
  v1::Task task;
  ASSERT_OK(store->read([&](Reader& r) -> absl::Status {
    if (++reads == 1) endSessions();
    TESSERA_ASSIGN_OR_RETURN(task, r.getTask("counter"));
    return absl::OkStatus();
  }));
  EXPECT_EQ(task.fencing_token(), 2);
  EXPECT_TRUE(absl::IsUnavailable(store->read([&](Reader& r) -> absl::Status {
    ++reads;
    EXPECT_OK(r.getTask("counter").status());
    endSessions();
    return r.getTask("counter").status();
  })));
  EXPECT_EQ(reads, 3) << "a read that has read something is not repeated";
  EXPECT_OK(readOne(*store, [](Reader& r) { return r.getTask("counter"); }).status());
}

TEST_F(PostgresStoreTest, NothingIsLostOrDoneTwiceWhileConnectionsFail) {
  const auto store = openStore(uri_);
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  std::atomic<bool> stop = false;
  std::atomic<int> acknowledged = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const absl::Status status = store->transact(countUp);
        EXPECT_OK(status);
        if (status.ok()) ++acknowledged;
      }
    });
  }
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(15 + 7 * i));
    endSessions();
  }
  ASSERT_OK(server().crashAndRestart());
  const int before = acknowledged;
  while (acknowledged < before + 10) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(readOne(*store, [](Reader& r) { return r.getTask("counter"); })->fencing_token(), acknowledged);
}

TEST_F(PostgresStoreTest, NoticesReachTheOtherServers) {
  const auto one = openStore(uri_);
  const auto other = openStore(uri_);
  std::mutex mutex;
  std::condition_variable heard;
  std::set<std::string> jobs;
  int tasks = 0;
  const auto listening = other->listen([&](const Notice& notice) {
    const std::lock_guard lock(mutex);
    jobs.insert(notice.changed_jobs.begin(), notice.changed_jobs.end());
    tasks += notice.tasks_ready;
    heard.notify_all();
  });
  // More job ids than fit in one NOTIFY. The channel of `other` may not listen yet, so the notice is repeated.
  std::set<std::string> sent;
  for (int i = 0; i < 500; ++i) sent.insert(absl::StrCat("job-", i, "-0123456789abcdef"));
  const auto complete = [&] { return jobs == sent && tasks > 0; };
  std::unique_lock lock(mutex);
  for (int i = 0; i < 100 && !complete(); ++i) {
    lock.unlock();
    ASSERT_OK(one->transact([&](Transaction& t) {
      t.notify({3, sent});
      return absl::OkStatus();
    }));
    lock.lock();
    heard.wait_for(lock, std::chrono::milliseconds(100), complete);
  }
  EXPECT_TRUE(complete());
  EXPECT_EQ(tasks % 3, 0);
}

TEST_F(PostgresStoreTest, TextsThatPostgresCannotStoreAreRefusedAlone) {
  const auto store = openStore(uri_);
  EXPECT_TRUE(absl::IsInvalidArgument(
      store->transact([](Transaction& t) { return t.putTask(sampleTask(std::string("zero\0byte", 9))); })));
  EXPECT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("fine")); }));
}

TEST_F(PostgresStoreTest, WritesShareARoundTrip) {
  auto database = PostgresDatabase::open(uri_, PostgresDatabase::Mode::kWrites);
  ASSERT_OK(database.status());
  const std::string token_key;
  SqlTransaction transaction(**database, token_key);
  const int64_t before = (*database)->roundTrips();
  ASSERT_OK((*database)->begin());
  for (int i = 0; i < 100; ++i) EXPECT_OK(transaction.putTask(sampleTask(std::to_string(i))));
  ASSERT_OK((*database)->commit());
  EXPECT_LE((*database)->roundTrips() - before, 2);
  EXPECT_EQ(*server().query(uri_, "SELECT count(*) FROM task_queue"), "100");
}

TEST(PostgresDialect, StatementsAreTranslated) {
  EXPECT_EQ(
      toPostgres("SELECT a FROM b INDEXED BY b_by_c CROSS JOIN d INDEXED BY d_e ON d.x = b.x WHERE c = ? AND e < ?")
          .sql,
      "SELECT a FROM b JOIN d ON d.x = b.x WHERE c = $1 AND e < $2");
  EXPECT_EQ(toPostgres("UPDATE a SET b = ?2 WHERE c = ?1").sql, "UPDATE a SET b = $2 WHERE c = $1");
  const PostgresStatementText filter = toPostgres("SELECT body FROM a WHERE instr(b, ?) > 0 AND NOT (c GLOB ?)");
  EXPECT_EQ(filter.sql, "SELECT body FROM a WHERE strpos(b, $1) > 0 AND NOT (c LIKE $2)");
  EXPECT_THAT(filter.globs, ElementsAre(1));
  EXPECT_EQ(likeOfGlob("*50%_off[*][[]\\"), "%50\\%\\_off*[\\\\");
}

}  // namespace
}  // namespace tessera::storage

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (absl::IsNotFound(tessera::storage::PostgresServer::shared().status())) {
    std::cout << "[  SKIPPED ] all tests: " << tessera::storage::PostgresServer::shared().status().message() << "\n";
    return 0;
  }
  if (const absl::Status status = tessera::storage::PostgresServer::shared().status(); !status.ok()) {
    std::cerr << status << "\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
