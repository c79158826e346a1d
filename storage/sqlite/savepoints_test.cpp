#include "storage/sql/savepoints.h"

#include "gmock/gmock.h"
#include "storage/conformance/samples.h"
#include "storage/scratch_folder.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite_store.h"

namespace tessera::storage {
namespace {

/// A transaction on a table with a unique column.
class SavepointsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(database_->execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY); BEGIN IMMEDIATE"));
  }
  absl::Status insert(int n) { return database_->prepare("INSERT INTO numbers VALUES (?)").bind(n).run(); }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> result;
    Statement all = database_->prepareOnce("SELECT n FROM numbers ORDER BY n");
    while (*all.step()) result.push_back(all.integer(0));
    return result;
  }
  /// Whether SQLite has an open savepoint.
  bool open() { return database_->execute("ROLLBACK TO part").ok(); }

  ScratchFolder folder_;
  std::unique_ptr<SqliteDatabase> database_ =
      *SqliteDatabase::open(folder_.file("numbers.db"), SqliteDatabase::Mode::kReadWriteCreate);
  Savepoints& savepoints_ = database_->savepoints();
};

using testing::ElementsAre;

TEST_F(SavepointsTest, APartIsUndoneAlone) {
  for (const int n : {1, 2, 3}) {
    savepoints_.begin();
    ASSERT_OK(insert(n));
    ASSERT_OK(savepoints_.end(n != 2));
  }
  EXPECT_THAT(numbers(), ElementsAre(1, 3));
}

TEST_F(SavepointsTest, PartsNest) {
  savepoints_.begin();
  ASSERT_OK(insert(1));
  savepoints_.begin();
  savepoints_.begin();
  ASSERT_OK(insert(2));
  ASSERT_OK(savepoints_.end(true));
  ASSERT_OK(savepoints_.end(false));
  EXPECT_THAT(numbers(), ElementsAre(1)) << "what was kept went with what is around it";
  ASSERT_OK(savepoints_.end(true));
  savepoints_.begin();
  savepoints_.begin();
  ASSERT_OK(insert(3));
  ASSERT_OK(savepoints_.end(true));
  ASSERT_OK(savepoints_.end(false));
  EXPECT_THAT(numbers(), ElementsAre(1));
}

TEST_F(SavepointsTest, OnlyWhatWritesGetsOne) {
  savepoints_.begin();
  EXPECT_THAT(numbers(), ElementsAre());
  EXPECT_FALSE(open());
  ASSERT_OK(insert(1));
  EXPECT_TRUE(open());
  ASSERT_OK(savepoints_.end(true));
  EXPECT_FALSE(open());
}

TEST_F(SavepointsTest, ALastWriteGetsNone) {
  savepoints_.begin();
  savepoints_.announceLastWrite();
  ASSERT_OK(insert(1));
  EXPECT_FALSE(open());
  ASSERT_OK(savepoints_.end(true));
  savepoints_.begin();
  ASSERT_OK(insert(2));
  savepoints_.announceLastWrite();
  ASSERT_OK(insert(3));
  ASSERT_OK(savepoints_.end(true));
  EXPECT_THAT(numbers(), ElementsAre(1, 2, 3));
}

TEST_F(SavepointsTest, ALastWriteMayFail) {
  ASSERT_OK(insert(1));
  savepoints_.begin();
  savepoints_.announceLastWrite();
  EXPECT_TRUE(absl::IsAlreadyExists(insert(1)));
  EXPECT_OK(savepoints_.end(false));  // nothing to roll back
  EXPECT_OK(database_->fault());
}

TEST_F(SavepointsTest, AnotherWriteAfterTheLastIsRefused) {
  savepoints_.begin();
  savepoints_.announceLastWrite();
  ASSERT_OK(insert(1));
  EXPECT_TRUE(absl::IsInternal(insert(2)));
  EXPECT_TRUE(absl::IsInternal(database_->fault())) << "so nothing may be committed";
}

TEST_F(SavepointsTest, WhatCannotBeUndoneIsSaid) {
  savepoints_.begin();
  savepoints_.announceLastWrite();
  ASSERT_OK(insert(1));
  EXPECT_TRUE(absl::IsInternal(savepoints_.end(false)));
  savepoints_.begin();
  ASSERT_OK(insert(2));
  EXPECT_OK(savepoints_.end(false));  // the next part is unaffected
}

TEST_F(SavepointsTest, WithinAnotherPartNothingIsTheLastWrite) {
  savepoints_.begin();
  savepoints_.begin();
  savepoints_.announceLastWrite();
  ASSERT_OK(insert(1));
  ASSERT_OK(savepoints_.end(true));
  ASSERT_OK(insert(2));
  ASSERT_OK(savepoints_.end(false));
  EXPECT_THAT(numbers(), ElementsAre());
}

TEST(LastWrites, ABodyThatFailsAfterOneCommitsNothing) {
  const ScratchFolder folder;
  auto store = *openSqliteStore(folder.file("tessera.db"));
  v1::Job ended = sampleJob("j");
  ended.set_state(v1::Job::SUCCEEDED);
  EXPECT_TRUE(absl::IsInternal(store->transact([&](Transaction& t) {
    t.announceLastWrite();
    EXPECT_OK(t.insertJob(ended, "hash", ""));
    return absl::CancelledError("on purpose");
  })));
  EXPECT_TRUE(absl::IsNotFound(store->read([](Reader& r) { return r.getJob("j").status(); })));
  EXPECT_OK(store->transact([&](Transaction& t) { return t.insertJob(ended, "hash", ""); }));
}

}  // namespace
}  // namespace tessera::storage
