#include "storage/postgres_store.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "proto/support/sha256.h"
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
  const std::string once = "SELECT string_agg(name, ' ' ORDER BY version) FROM schema_version";
  const std::string names = *server().query(uri_, once);
  EXPECT_THAT(names, testing::StartsWith("0001_initial"));
  EXPECT_OK(openPostgresStore(uri_).status());
  EXPECT_EQ(*server().query(uri_, once), names);
}

TEST_F(PostgresStoreTest, ANewerSchemaIsUsedIfItsMigrationsAllowThat) {
  ASSERT_OK(server().query(uri_, "INSERT INTO schema_version VALUES (9002, '9002_wider', now(), 1)").status());
  EXPECT_OK(openPostgresStore(uri_).status());
  ASSERT_OK(server().query(uri_, "INSERT INTO schema_version VALUES (9003, '9003_narrower', now(), 9002)").status());
  const absl::Status refused = openPostgresStore(uri_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("newer release (schema 9003, this release knows up to "));
}

TEST_F(PostgresStoreTest, ADatabaseThatCannotBeReachedIsNamed) {
  const absl::Status status = openPostgresStore("postgresql:///nowhere?host=/nonexistent").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent"));
}

// A proxy whose own server is gone accepts connections and closes them; libpq alone would not go on to the next host.
TEST_F(PostgresStoreTest, AHostThatClosesConnectionsIsPassedOver) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 16), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  std::atomic<int> closed = 0;
  std::thread proxy([&] {
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;) {
      char startup[64];
      EXPECT_GT(recv(connection, startup, sizeof(startup), 0), 0);
      close(connection);
      ++closed;
    }
  });
  const std::string hosts =
      absl::StrReplaceAll(uri_, {{"host=", absl::StrCat("port=", ntohs(address.sin_port), ",&host=127.0.0.1,")}});
  const std::unique_ptr<Store> store = openStore(hosts);
  ASSERT_NE(store, nullptr) << hosts;
  EXPECT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("t")); }));
  EXPECT_GT(closed, 0) << "the first host was tried";
  shutdown(listener, SHUT_RDWR);
  proxy.join();
  close(listener);
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

/// The result of a call that must end. A call that waits for ever fails the test, and stays behind.
absl::Status ended(std::function<absl::Status()> call) {
  auto result = std::make_shared<std::promise<absl::Status>>();
  std::thread([result, call = std::move(call)] { result->set_value(call()); }).detach();
  std::future<absl::Status> future = result->get_future();
  if (future.wait_for(std::chrono::seconds(60)) == std::future_status::ready) return future.get();
  return absl::InternalError("the call does not end");
}

PostgresStoreOptions impatient() {
  PostgresStoreOptions options;
  options.readers = 1;
  options.patience = std::chrono::milliseconds(1500);
  options.limits.answer = std::chrono::seconds(1);
  options.limits.lock = std::chrono::milliseconds(200);
  return options;
}

TEST_F(PostgresStoreTest, ADatabaseThatIsStoppedIsNotWaitedForForever) {
  std::shared_ptr<Store> store = openStore(uri_ + "&connect_timeout=2", impatient());
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  server().signalAll(SIGSTOP);
  std::vector<absl::Status> results(5);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = ended([store] { return store->transact(countUp); }); });
  }
  const absl::Status read =
      ended([store] { return store->read([](Reader& r) { return r.getTask("counter").status(); }); });
  for (std::thread& thread : threads) thread.join();
  server().signalAll(SIGCONT);
  EXPECT_TRUE(absl::IsUnavailable(read)) << read;
  for (const absl::Status& result : results) EXPECT_TRUE(absl::IsUnavailable(result)) << result;
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("database"));
  ASSERT_TRUE((store->transact(countUp)).ok()) << "when it goes on, so does the store";
  EXPECT_OK(store->read([](Reader& r) { return r.getTask("counter").status(); }));
  server().signalAll(SIGSTOP);
  const absl::Status closed = ended([&store] { return store.reset(), absl::OkStatus(); });
  server().signalAll(SIGCONT);
  EXPECT_TRUE((closed).ok()) << "a server can stop although its database does not answer";
}

TEST_F(PostgresStoreTest, AServerThatHangsInATransactionLosesIt) {
  PostgresStoreOptions options;
  options.limits.idle = std::chrono::milliseconds(200);
  const auto hanging = openStore(uri_, options);
  const auto other = openStore(uri_);
  ASSERT_OK(hanging->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  int runs = 0;
  absl::Status of_other;
  ASSERT_OK(hanging->transact([&](Transaction& t) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(countUp(t));
    TESSERA_RETURN_IF_ERROR(t.getTask("counter").status());  // the row is locked
    if (++runs == 1) of_other = ended([&] { return other->transact(countUp); });
    return absl::OkStatus();
  }));
  EXPECT_OK(of_other);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(readOne(*other, [](Reader& r) { return r.getTask("counter"); })->fencing_token(), 2);
}

TEST_F(PostgresStoreTest, ALockOfAnotherSessionIsNotWaitedForForever) {
  std::shared_ptr<Store> store = openStore(uri_ + "&connect_timeout=2", impatient());
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  auto session = PostgresDatabase::open(uri_, PostgresDatabase::Mode::kWrites);
  ASSERT_OK(session.status());
  ASSERT_OK((*session)->begin());
  ASSERT_OK((*session)->prepareOnce("LOCK TABLE tasks").run());
  EXPECT_TRUE((*session)->prepareOnce("SELECT 1").step().ok());
  const absl::Status status = ended([store] { return store->transact(countUp); });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("lock"));
  (*session)->rollback();
  EXPECT_OK(store->transact(countUp));
}

TEST_F(PostgresStoreTest, OfTransactionsThatShareACommitOnlyTheFaultyOneFails) {
  const auto store = openStore(uri_);
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("counter")); }));
  std::string long_id;
  for (int i = 0; i < 100; ++i) long_id += sha256Hex(absl::StrCat(i));  // longer than an index can hold
  std::vector<absl::Status> results(12);
  std::mutex mutex;
  std::condition_variable done;
  int open = static_cast<int>(results.size());
  // Enqueued by one body, so that they share a commit.
  bool enqueued = false;
  ASSERT_OK(store->transact([&](Transaction&) {
    if (std::exchange(enqueued, true)) return absl::OkStatus();
    std::thread([&] {
      for (size_t i = 0; i < results.size(); ++i) {
        store->transactAsync(
            [&, i](Transaction& t) -> absl::Status {
              TESSERA_RETURN_IF_ERROR(countUp(t));
              return i % 5 == 3 ? t.setPin(Kind::kJob, long_id, true) : absl::OkStatus();
            },
            [&, i](const absl::Status& status) {
              const std::lock_guard lock(mutex);
              results[i] = status;
              if (--open == 0) done.notify_all();
            });
      }
    }).join();
    return absl::OkStatus();
  }));
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return open == 0; });
  int good = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    good += results[i].ok();
    if (i % 5 == 3) {
      EXPECT_TRUE(absl::IsInvalidArgument(results[i])) << results[i];
    } else {
      EXPECT_TRUE((results[i]).ok()) << i;
    }
  }
  EXPECT_EQ(readOne(*store, [](Reader& r) { return r.getTask("counter"); })->fencing_token(), good);
}

TEST_F(PostgresStoreTest, AnOldSessionThatWakesUpCommitsNothing) {
  PostgresStoreOptions options = impatient();
  options.patience = std::chrono::seconds(20);
  std::shared_ptr<Store> store = openStore(uri_, options);
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("warm-up")); }));
  const auto backend = server().query(uri_,
                                      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND "
                                      "application_name = 'tesserad' AND query LIKE '%COMMIT%'");
  ASSERT_OK(backend.status());
  pid_t pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(*backend, &pid)) << *backend;
  kill(pid, SIGSTOP);
  // It only writes, so its snapshot would be taken when the session wakes up.
  ASSERT_OK(ended(
      [store] { return store->transact([](Transaction& t) { return t.putTask(sampleTask("task", v1::BUILD, 1)); }); }));
  ASSERT_OK(store->transact([](Transaction& t) { return t.putTask(sampleTask("task", v1::BUILD, 2)); }));
  kill(pid, SIGCONT);
  for (int i = 0; i < 600; ++i) {
    const auto alive = server().query(uri_, absl::StrCat("SELECT count(*) FROM pg_stat_activity WHERE pid = ", pid));
    if (alive.ok() && *alive == "0") break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(readOne(*store, [](Reader& r) { return r.getTask("task"); })->priority(), 2);
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
