#include "storage/sqlite_store.h"

#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/messages/project.h"
#include "storage/conformance/samples.h"
#include "storage/scratch_folder.h"
#include "storage/sqlite/migrations.h"

namespace tessera::storage {
namespace {

using testing::HasSubstr;

/// A store in a temporary folder.
class ScratchStore : public Store {
 public:
  ScratchStore() : store_(std::move(*openSqliteStore(folder_.file("tessera.db")))) {}
  absl::Status transact(const std::function<absl::Status(Transaction&)>& body) override {
    return store_->transact(body);
  }
  void transactAsync(std::function<absl::Status(Transaction&)> body,
                     std::function<void(const absl::Status&)> done) override {
    store_->transactAsync(std::move(body), std::move(done));
  }
  absl::Status read(const std::function<absl::Status(Reader&)>& body) override { return store_->read(body); }
  std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) override {
    return store_->listen(std::move(listener));
  }

 private:
  ScratchFolder folder_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         testing::Values(StoreKind{"Sqlite", [] { return std::make_unique<ScratchStore>(); }}),
                         [](const auto& kind) { return kind.param.name; });

v1::Worker sampleWorker() {
  v1::Worker worker;
  worker.set_id("w");
  return worker;
}

class SqliteStoreTest : public testing::Test {
 protected:
  absl::Status openStatus() const { return openSqliteStore(path_).status(); }
  /// Access to the file by another program.
  void execute(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  /// Returns the text that a query selects.
  std::string answer(const std::string& sql) const {
    sqlite3* database = nullptr;
    std::string text;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    const auto take = [](void* into, int, char** values, char**) {
      *static_cast<std::string*>(into) += values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), take, &text, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
    return text;
  }
  /// A message as an SQL literal.
  static std::string blob(const google::protobuf::Message& message) {
    return absl::StrCat("x'", absl::BytesToHexString(message.SerializeAsString()), "'");
  }
  /// A database with the given rows, as a release with this number of migrations left it.
  void makeOfRelease(int version, const std::string& rows) const {
    std::string sql =
        "PRAGMA application_id = 0x54535241; CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT "
        "NULL, applied_time INTEGER NOT NULL); BEGIN;";
    for (const Migration& migration : migrations()) {
      if (migration.version > version) break;
      absl::StrAppend(&sql, migration.sql, ";INSERT INTO schema_version VALUES (", migration.version, ", '",
                      migration.name, "', 0);");
    }
    execute(absl::StrCat(sql, rows, "COMMIT;"));
  }
  void fill(int jobs) const {
    auto store = openSqliteStore(path_);
    ASSERT_OK(store.status());
    ASSERT_OK((*store)->transact([&](Transaction& t) {
      for (int i = 0; i < jobs; ++i) EXPECT_TRUE(t.insertJob(sampleJob(std::to_string(i), i), "h", "").ok());
      return absl::OkStatus();
    }));
  }
  ScratchFolder folder_;
  const std::string path_ = folder_.file("tessera.db");
};

TEST_F(SqliteStoreTest, AnotherProgramsLockIsWaitedForAsLongAsTheOptionsSay) {
  SqliteStoreOptions options;
  options.busy = std::chrono::milliseconds(50);
  auto store = openSqliteStore(path_, options);
  ASSERT_OK(store.status());
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsUnavailable((*store)->transact([](Transaction& t) { return t.putWorker(sampleWorker()); })));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, SqliteStoreOptions().busy) << "a fortieth was asked for";
  ASSERT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_OK((*store)->transact([](Transaction& t) { return t.putWorker(sampleWorker()); }));
  sqlite3_close(other);
}

TEST_F(SqliteStoreTest, ALeaseThatIsProlongedWritesNothingLarge) {
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  v1::Task task = sampleTask("large");
  for (int i = 0; i < 10'000; ++i) task.mutable_spec()->add_inputs()->set_sha256(std::string(64, 'a'));
  task.set_state(v1::Task::LEASED);
  task.set_fencing_token(1);
  ASSERT_OK((*store)->transact([&](Transaction& t) { return t.putTask(task); }));
  const auto log_bytes = [&] { return static_cast<int64_t>(std::filesystem::file_size(path_ + "-wal")); };
  const int64_t before = log_bytes();
  for (int i = 1; i <= 50; ++i) {
    task.set_lease_expiry_us(i);
    ASSERT_OK((*store)->transact([&](Transaction& t) { return t.putLeasedTask(task, 1); }));
  }
  const auto written = static_cast<int64_t>(task.spec().ByteSizeLong());
  EXPECT_GT(written, 600'000);
  EXPECT_LT(log_bytes() - before, 2 * written) << "fifty times";
  const auto read = readOne(**store, [](Reader& r) { return r.getTask("large"); });
  ASSERT_OK(read.status());
  EXPECT_EQ(read->SerializeAsString(), task.SerializeAsString());
}

TEST_F(SqliteStoreTest, ALargeTransactionMakesNoFileToBeUndoneFrom) {
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  const auto putAll = [](Transaction& t, const std::string& trouble) {
    for (int i = 0; i < 100; ++i) {
      v1::Worker worker;
      worker.set_id(std::to_string(i));
      worker.set_trouble(trouble);
      EXPECT_OK(t.putWorker(worker));
    }
  };
  const std::string before(3000, 'b'), after(3000, 'a');
  ASSERT_OK((*store)->transact([&](Transaction& t) {
    putAll(t, before);
    return absl::OkStatus();
  }));
  EXPECT_TRUE(absl::IsCancelled((*store)->transact([&](Transaction& t) {
    putAll(t, after);
    for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      EXPECT_FALSE(absl::StrContains(std::filesystem::read_symlink(open, gone).string(), "etilqs")) << "of SQLite";
    }
    return absl::CancelledError("no");
  })));
  EXPECT_EQ(readOne(**store, [](Reader& r) { return r.getWorker("99"); })->trouble(), before) << "it is undone even so";
}

// A search from before tasks had a project has no project; it must be found although projects have quotas.
TEST_F(SqliteStoreTest, TasksOfNoProjectAreFoundByProject) {
  const v1::Task task = sampleTask("search", v1::SEARCH, 0, 5);
  makeOfRelease(
      9, absl::StrCat("INSERT INTO tasks (id, key, state, kind, priority, ready_time, body) VALUES ('search', '', 1, ",
                      static_cast<int>(v1::SEARCH), ", 0, 5, ", blob(task), ");"));
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  QueueQuery query;
  query.now_us = 10;
  query.may_not_start = [](const std::string&) { return false; };
  const auto found = readOne(**store, [&](Reader& r) { return r.nextReadyTask(query); });
  ASSERT_OK(found.status());
  EXPECT_EQ(found->id(), "search");
}

// Tasks of a former release have no target: they are counted as tasks for any host, until they end.
TEST_F(SqliteStoreTest, TasksOfAFormerReleaseAreCountedByTarget) {
  std::string rows;
  for (const char* id : {"one", "two", "three"}) {
    absl::StrAppend(&rows, "INSERT INTO tasks (id, key, state, kind, priority, ready_time, body) VALUES ('", id,
                    "', '', 1, ", static_cast<int>(v1::BUILD), ", 0, 5, ", blob(sampleTask(id, v1::BUILD, 0, 5)), ");");
  }
  makeOfRelease(18, rows);
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  const auto ready = [&] {
    const auto depths = readOne(**store, [](Reader& r) { return r.targetDepths(); });
    EXPECT_LE(depths->size(), 1u);
    return depths->empty() ? 0 : depths->front().target.empty() ? depths->front().ready : -1;
  };
  EXPECT_EQ(ready(), 3);
  v1::Task leased = sampleTask("two", v1::BUILD, 0, 5);
  leased.set_state(v1::Task::LEASED);
  ASSERT_OK((*store)->transact([&](Transaction& t) { return t.putTask(leased); }));
  EXPECT_EQ(ready(), 2);
}

TEST_F(SqliteStoreTest, KeepsEverythingWhenOpenedAgain) {
  fill(10);
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  EXPECT_EQ(readOne(**store, [](Reader& r) { return r.getJob("7"); })->create_time_us(), 7);
}

TEST_F(SqliteStoreTest, PageTokensOutliveARestart) {
  fill(10);
  ListQuery query = {.page_size = 4, .page_token = "", .filter = "", .order_by = "create_time"};
  query.page_token = readOne(**openSqliteStore(path_), [&](Reader& r) { return r.listJobs(query); })->next_page_token;
  auto page = readOne(**openSqliteStore(path_), [&](Reader& r) { return r.listJobs(query); });
  ASSERT_OK(page.status());
  EXPECT_EQ(page->items.front().id(), "4");
}

TEST_F(SqliteStoreTest, BelongsToOneProcessAtATime) {
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  absl::Status second = openStatus();
  EXPECT_TRUE(absl::IsFailedPrecondition(second));
  EXPECT_THAT(std::string(second.message()), HasSubstr("in use by process " + std::to_string(getpid())));
  EXPECT_FALSE(isForeignOrDamaged(second)) << "whoever has it may end";
  store->reset();
  EXPECT_OK(openStatus());
}

TEST_F(SqliteStoreTest, RefusesTheSchemaOfANewerRelease) {
  fill(1);
  execute("INSERT INTO schema_version VALUES (999, '0999_future', 0)");
  absl::Status status = openStatus();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer release (schema 999"));
  EXPECT_TRUE(isForeignOrDamaged(status));
  execute("DELETE FROM schema_version WHERE version = 999");
  EXPECT_OK(openStatus());
}

TEST_F(SqliteStoreTest, RecordsOfTheFirstSchemaGetTheirColumns) {
  std::string rows;
  for (int i = 0; i < 1500; ++i) {
    v1::TuningRecord record = sampleRecord(std::to_string(i), 1 + i, i);
    record.set_workload_hash("w");
    record.set_target_hash("c");
    record.set_validation(i % 2 ? "passed" : "failed: wrong");
    absl::StrAppend(&rows, "INSERT INTO records VALUES ('", i, "', 'w', '', '', '', '', '', '', '", record.validation(),
                    "', 0, ", 1 + i, ", ", i, ", ", blob(record), ");");
  }
  // A record that cannot be parsed: it is set aside, and all others are kept.
  makeOfRelease(1, rows + "INSERT INTO records VALUES ('bad', 'w', '', '', '', '', '', '', '', 1, 1, 1, x'FFFF07');");
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  auto best = readOne(**store, [](Reader& r) { return r.bestRecords({.chip = "c", .top = 2}); });
  ASSERT_OK(best.status());
  ASSERT_EQ(best->items.size(), 1u);
  EXPECT_EQ(best->items[0].records[0].id(), "1") << "0 failed";
  EXPECT_EQ(best->items[0].records[1].id(), "3");
  auto all = readOne(**store, [](Reader& r) { return r.recordStatistics(kDefaultProject, "", "", 1); });
  ASSERT_OK(all.status());
  EXPECT_EQ((*all)[0].records, 1500);
  EXPECT_EQ((*all)[0].failed, 750);
  store->reset();
  EXPECT_EQ(answer("SELECT entity || ' ' || id || ' ' || hex(body) FROM set_aside"), "record bad FFFF07");
}

TEST_F(SqliteStoreTest, WhatWasThereBeforeProjectsIsTheDefaultOnes) {
  const std::string sha256(64, 'a');
  v1::Job job = sampleJob("j1", 5);
  v1::Artifact artifact = sampleArtifact("a1", "k1", 5);
  v1::Target target;
  target.set_name("edge");
  v1::Action action = sampleAction("act1", "k1", 5);
  makeOfRelease(
      5,
      absl::StrCat("INSERT INTO actions VALUES ('act1', 'k1', 3, 5, ", blob(action), ");",
                   "INSERT INTO action_components VALUES ('act1', 'model', 'm', 5);",
                   "INSERT INTO jobs (id, request_id, request_hash, action_id, state, kind, target, name, ",
                   "action_key, cached, priority, create_time, end_time, queue_deadline, body) VALUES ",
                   "('j1', 'request-j1', 'h', 'act1', 1, 5, '', '', 'k1', 0, 0, 5, 0, 0, ", blob(job), ");",
                   "INSERT INTO artifacts (id, name, target, model, job, create_time, body) VALUES ",
                   "('a1', '', '', '', 'j1', 5, ", blob(artifact), ");",
                   "INSERT INTO artifact_keys VALUES ('k1', 'a1', 5);", "INSERT INTO targets VALUES ('edge', '', 0, ",
                   blob(target), ");", "INSERT INTO blobs (sha256, size, last_use) VALUES ('", sha256, "', 7, 9);"));
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  ASSERT_OK((*store)->read([&](Reader& r) {
    EXPECT_EQ(r.getJobByRequestId(kDefaultProject, "request-j1")->id(), "j1");
    ListQuery own;
    own.project = kDefaultProject;
    EXPECT_EQ(r.listJobs(own)->items.size(), 1u);
    own.filter = "id = a1";
    EXPECT_EQ(r.listArtifacts(own)->items.size(), 1u);
    own.filter = "name = edge";
    EXPECT_EQ(r.listTargets(own)->items.size(), 1u);
    EXPECT_TRUE(r.getArtifact(kDefaultProject, "a1").ok());
    EXPECT_TRUE(r.artifactByKey("k1").ok());
    EXPECT_TRUE(r.getTarget(kDefaultProject, "edge").ok());
    EXPECT_TRUE(*r.mayReadBlob(kDefaultProject, sha256));
    EXPECT_EQ(r.usageOf(kDefaultProject)->queued_jobs, 1);
    EXPECT_EQ(r.usageOf(kDefaultProject)->blob_bytes, 7);
    v1::KeyComponent component;
    component.set_name("model");
    component.set_hash("m");
    EXPECT_EQ(r.nearestActions(kDefaultProject, {component}, 1)->size(), 1u);
    return absl::OkStatus();
  }));
}

TEST_F(SqliteStoreTest, ComponentsAreWrittenOnceAndGoWithTheirAction) {
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  v1::Action action = sampleAction("act1", "k1", 5);
  for (const char* name : {"model", "target"}) {
    v1::KeyComponent* component = action.add_components();
    component->set_name(name);
    component->set_hash(std::string(64, 'c'));
  }
  ASSERT_OK((*store)->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(action).ok());
    return t.insertJob(sampleJob("j1", 5), "h", "act1");
  }));
  EXPECT_EQ(answer("SELECT group_concat(component || ' of ' || action_id, ', ') FROM action_components"),
            "model cccccccccccccccc default of act1, target cccccccccccccccc default of act1");
  action.set_state(v1::Job::SUCCEEDED);
  ASSERT_OK((*store)->transact([&](Transaction& t) { return t.putAction(action); }));
  EXPECT_EQ(answer("SELECT count(*) FROM action_components"), "2");
  ASSERT_OK((*store)->read([&](Reader& r) {
    const auto found = r.nearestActions(kDefaultProject, {action.components(0)}, 1);
    EXPECT_EQ(found->front().state(), v1::Job::SUCCEEDED);
    return absl::OkStatus();
  }));
  ASSERT_OK((*store)->transact([&](Transaction& t) { return t.erase(Kind::kJob, "j1"); }));
  EXPECT_EQ(answer("SELECT count(*) FROM actions"), "0");
  EXPECT_EQ(answer("SELECT count(*) FROM action_components"), "0");
}

TEST_F(SqliteStoreTest, RefusesAnotherProgramsDatabase) {
  execute("CREATE TABLE bookmarks (url TEXT)");
  absl::Status status = openStatus();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to another program"));
  EXPECT_TRUE(isForeignOrDamaged(status));
}

TEST_F(SqliteStoreTest, NamesAFolderThatIsNotThere) {
  absl::Status status = openSqliteStore(folder_.file("absent/tessera.db")).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("check that the folder exists"));
}

TEST_F(SqliteStoreTest, RefusesDamagedFiles) {
  fill(500);
  const auto size = std::filesystem::file_size(path_);
  const std::string whole = folder_.file("whole");
  std::filesystem::copy_file(path_, whole);
  const std::pair<const char*, std::function<void()>> damages[] = {
      {"cut in half", [&] { std::filesystem::resize_file(path_, size / 2); }},
      {"cut within its head", [&] { std::filesystem::resize_file(path_, 50); }},
      {"a text", [&] { std::ofstream(path_) << std::string(5000, 'x'); }},
      {"zeros in the middle",
       [&] {
         std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(8192);
         file << std::string(size - 16384, '\0');
       }},
  };
  for (const auto& [name, damage] : damages) {
    damage();
    absl::Status status = openStatus();
    EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
    EXPECT_TRUE(isForeignOrDamaged(status)) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_)) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("damaged")) << name;
    std::filesystem::copy_file(whole, path_, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove(path_ + "-wal");
    std::filesystem::remove(path_ + "-shm");
  }
  EXPECT_OK(openStatus());
}

/// Number of commits in the write-ahead log: frames whose header contains the database's size after a commit
/// (https://sqlite.org/fileformat2.html#the_write_ahead_log).
int commitsInLog(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string log((std::istreambuf_iterator<char>(file)), {});
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(log[at + i]);
    return value;
  };
  int commits = 0;
  for (size_t at = 32; at + 24 <= log.size(); at += 24 + word(8)) commits += word(at + 4) != 0;
  return commits;
}

TEST_F(SqliteStoreTest, ConcurrentCallersShareCommits) {
  constexpr int kThreads = 16;
  constexpr int kEach = 10;
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  const int before = commitsInLog(path_ + "-wal");
  // The first transaction blocks the writer until the others have arrived, as a slow disk would.
  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    EXPECT_OK((*store)->transact([&](Transaction& t) {
      while (arrived < kThreads) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return t.putTask(sampleTask("first"));
    }));
  });
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      ++arrived;
      for (int i = 0; i < kEach; ++i) {
        EXPECT_OK((*store)->transact(
            [&](Transaction& t) { return t.putTask(sampleTask(std::to_string(thread) + "." + std::to_string(i))); }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int commits = commitsInLog(path_ + "-wal") - before;
  RecordProperty("commits", commits);
  EXPECT_GT(commits, 0);
  EXPECT_LT(commits, kThreads * kEach / 2) << "of " << kThreads * kEach + 1 << " transactions";
}

TEST_F(SqliteStoreTest, AStoreThatClosesAnswersAllThatItTook) {
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  constexpr int kTransactions = 50;
  std::atomic<int> answered = 0;
  for (int i = 0; i < kTransactions; ++i) {
    (*store)->transactAsync([i](Transaction& t) { return t.putTask(sampleTask(std::to_string(i))); },
                            [&](const absl::Status& status) { answered += status.ok(); });
  }
  store->reset();
  EXPECT_EQ(answered, kTransactions);
  store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  for (int i = 0; i < kTransactions; ++i) {
    EXPECT_TRUE(readOne(**store, [&](Reader& r) { return r.getTask(std::to_string(i)); }).ok()) << i;
  }
}

TEST_F(SqliteStoreTest, TheLogStaysSmall) {
  auto store = openSqliteStore(path_);
  ASSERT_OK(store.status());
  v1::Task task = sampleTask("t");
  task.set_last_report_hash(std::string(100'000, 'x'));
  for (int i = 0; i < 1000; ++i) ASSERT_OK((*store)->transact([&](Transaction& t) { return t.putTask(task); }));
  EXPECT_LT(std::filesystem::file_size(path_ + "-wal"), 20u << 20)
      << "100 MB were put; what did not change is not written";
  EXPECT_LT(std::filesystem::file_size(path_), 4u << 20) << "one task of 100 kB is stored";
}

}  // namespace
}  // namespace tessera::storage
