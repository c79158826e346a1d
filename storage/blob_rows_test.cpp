// Small blobs as rows: durable together with the rows that refer to them, and compatible with earlier blob files.
#include "storage/blob_rows.h"

#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "storage/memory_store.h"
#include "storage/sqlite/database.h"
#include "storage/testing/blob_store_bench.h"
#include "storage/testing/faulty_disk.h"
#include "storage/testing/faulty_files.h"
#include "storage/testing/faulty_vfs.h"

namespace tessera::storage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BlobRowsTest : public BlobStoreTest {
 protected:
  std::map<std::string, int64_t> all() {
    std::map<std::string, int64_t> found;
    EXPECT_OK(store_->forEach([&](const std::string& sha256, int64_t bytes, int64_t) {
      EXPECT_TRUE(found.emplace(sha256, bytes).second) << "twice: " << sha256;
      return absl::OkStatus();
    }));
    return found;
  }
  /// Damages a row, as a failing disk would.
  void damage(const std::string& sha256) {
    store_.reset();
    rows_.reset();
    {
      auto database = SqliteDatabase::open(folder_.file("tessera.db"), SqliteDatabase::Mode::kReadWriteCreate);
      ASSERT_OK(database.status());
      ASSERT_OK((*database)->execute(
          absl::StrCat("UPDATE blob_bytes SET bytes = 'damaged' WHERE sha256 = '", sha256, "'").c_str()));
    }
    reopen({});
  }
};
INSTANTIATE_TEST_SUITE_P(Small, BlobRowsTest, testing::Values(64 << 10), nameOfMostRowBytes);

TEST_P(BlobRowsTest, WhatIsSmallLeavesNoFile) {
  const std::string most(64 << 10, 'm'), more(most + "m");
  EXPECT_TRUE(store_->becomesRow(64 << 10));
  EXPECT_FALSE(store_->becomesRow((64 << 10) + 1));
  for (const std::string& bytes : {std::string(), std::string("small"), most, more}) {
    ASSERT_OK(store_->put(bytes).status());
    EXPECT_EQ(std::filesystem::exists(pathOf(sha256Hex(bytes))), bytes == more) << bytes.size();
    EXPECT_EQ(*read(sha256Hex(bytes)), bytes);
  }
  auto upload = store_->startUpload(digestOf("sent"), 0);
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write("sent"));
  ASSERT_OK((*upload)->commit());
  EXPECT_OK((*upload)->commit());  // as a body that runs again does
  upload->reset();
  EXPECT_FALSE(std::filesystem::exists(pathOf(sha256Hex("sent"))));
  EXPECT_EQ(filesIn("tmp"), 0);
  EXPECT_EQ(*read(sha256Hex("sent"), 1, 2), "en");
  EXPECT_EQ(all().size(), 5u);
  reopen({});
  EXPECT_EQ(*read(sha256Hex("sent")), "sent");
  ASSERT_OK(store_->remove(sha256Hex("sent")));
  EXPECT_FALSE(store_->contains(sha256Hex("sent")));
  EXPECT_OK(store_->remove(sha256Hex("sent")));
}

TEST_P(BlobRowsTest, ARowBecomesDurableWithItsTransactionOrNotAtAll) {
  EXPECT_TRUE(absl::IsAborted(rows_->transact([&](Transaction& tx) -> absl::Status {
    EXPECT_OK(store_->put("put").status());
    auto upload = store_->startUpload(digestOf("sent"), 0);
    EXPECT_OK((*upload)->write("sent"));
    EXPECT_OK((*upload)->commit());
    EXPECT_TRUE(store_->contains(sha256Hex("put"))) << "within, it is there";
    EXPECT_EQ(*read(sha256Hex("sent")), "sent");
    EXPECT_OK(tx.putBlob(digestOf("put"), ""));
    return absl::AbortedError("on purpose");
  })));
  EXPECT_FALSE(store_->contains(sha256Hex("put")));
  EXPECT_FALSE(store_->contains(sha256Hex("sent")));
  EXPECT_THAT(all(), IsEmpty());
  ASSERT_OK(rows_->transact([&](Transaction& tx) -> absl::Status {
    EXPECT_OK(store_->put("put").status());
    return tx.putBlob(digestOf("put"), "");
  }));
  EXPECT_EQ(*read(sha256Hex("put")), "put");
  EXPECT_TRUE(absl::IsAborted(rows_->transact([&](Transaction&) {
    EXPECT_OK(store_->remove(sha256Hex("put")));
    return absl::AbortedError("on purpose");
  })));
  EXPECT_EQ(*read(sha256Hex("put")), "put") << "likewise what was removed";
}

TEST_P(BlobRowsTest, ATransactionThatIsRepeatedCommitsItsUploadAgain) {
  auto upload = store_->startUpload(digestOf("sent"), 0);
  ASSERT_OK((*upload)->write("sent"));
  for (const bool kept : {false, false, true}) {
    const absl::Status status = rows_->transact([&](Transaction&) {
      EXPECT_OK((*upload)->commit());
      return kept ? absl::OkStatus() : absl::AbortedError("on purpose");
    });
    EXPECT_EQ(status.ok(), kept);
    EXPECT_EQ(store_->contains(sha256Hex("sent")), kept);
  }
  EXPECT_EQ(*read(sha256Hex("sent")), "sent");
}

TEST_P(BlobRowsTest, TheQuotaForgetsWhatWasUndone) {
  BlobStoreOptions options;
  options.max_total_bytes = 1000;
  reopen(options);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(absl::IsAborted(rows_->transact([&](Transaction&) {
      EXPECT_OK(store_->put(std::string(600, 'u')).status());
      return absl::AbortedError("on purpose");
    })));
  }
  ASSERT_OK(store_->put(std::string(600, 'a')).status());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->put(std::string(500, 'b')).status()));
  ASSERT_OK(store_->remove(sha256Hex(std::string(600, 'a'))));
  EXPECT_OK(store_->put(std::string(500, 'b')).status());
}

TEST_P(BlobRowsTest, ADamagedRowIsSetAsideAndCanBeSentAgain) {
  ASSERT_OK(store_->put("content").status());
  const std::string sha256 = sha256Hex("content");
  damage(sha256);
  EXPECT_TRUE(absl::IsDataLoss(read(sha256).status()));
  EXPECT_FALSE(store_->contains(sha256));
  EXPECT_EQ(filesIn("corrupt"), 1);
  EXPECT_THAT(*store_->damaged(), ElementsAre(sha256));
  ASSERT_OK(store_->put("content").status());
  EXPECT_THAT(*store_->damaged(), IsEmpty());
  EXPECT_EQ(*read(sha256), "content");
}

TEST_P(BlobRowsTest, FilesThatWereThereBeforeAreReadAndRemovedAsEver) {
  {
    auto files = openBlobStore(root_);
    ASSERT_OK(files.status());
    ASSERT_OK((*files)->put("old").status());
    ASSERT_OK((*files)->put("older").status());
  }
  EXPECT_EQ(*read(sha256Hex("old")), "old");
  ASSERT_OK(store_->put("old").status());
  ASSERT_OK(store_->put("new").status());
  EXPECT_TRUE(absl::IsNotFound(readOne(*rows_, [](Reader& r) { return r.blobBytes(sha256Hex("old")); }).status()))
      << "it is there; not stored twice";
  EXPECT_EQ(all().size(), 3u);
  ASSERT_OK(store_->remove(sha256Hex("old")));
  EXPECT_FALSE(std::filesystem::exists(pathOf(sha256Hex("old"))));
  ASSERT_OK(store_->put("old").status());
  EXPECT_FALSE(std::filesystem::exists(pathOf(sha256Hex("old")))) << "sent again, it is a row";
}

TEST_P(BlobRowsTest, ARowThatIsPartOfAnotherBlobIsAFileToo) {
  ASSERT_OK(store_->put("middle").status());
  const std::string whole = "head-middle";
  auto upload = store_->startComposed(digestOf(whole), {{"", 5}, {sha256Hex("middle"), 6}});
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write("head-"));
  ASSERT_OK((*upload)->commit());
  upload->reset();
  EXPECT_EQ(*read(sha256Hex(whole)), whole);
  EXPECT_EQ(all().size(), 2u);
  ASSERT_OK(store_->remove(sha256Hex("middle")));
  EXPECT_FALSE(store_->contains(sha256Hex("middle")));
  EXPECT_EQ(*read(sha256Hex(whole)), whole);
  ASSERT_OK(store_->put("middle").status());
  damage(sha256Hex("middle"));
  EXPECT_TRUE(
      absl::IsDataLoss(store_->startComposed(digestOf("x-middle"), {{"", 2}, {sha256Hex("middle"), 6}}).status()));
}

/// A store with all data on one faulty disk; null if it cannot be opened.
struct Opened {
  std::unique_ptr<Store> store;
  std::unique_ptr<BlobStore> blobs;
};
Opened openAll(FileSystem& files, const FaultyVfs& vfs) {
  SqliteStoreOptions options;
  options.vfs = vfs.name().c_str();
  options.readers = 1;
  Opened opened;
  auto store = openSqliteStore("/data/tessera.db", options);
  if (!store.ok()) return {};
  opened.store = *std::move(store);
  BlobStoreOptions blob_options;
  blob_options.files = &files;
  blob_options.rows = opened.store.get();
  auto blobs = openBlobStore("/data/blobs", blob_options);
  if (!blobs.ok()) return {};
  opened.blobs = *std::move(blobs);
  return opened;
}

TEST(BlobRowsOnAFaultyDisk, WhatWasAcknowledgedIsThereWhicheverOperationFails) {
  using Fault = FaultyDisk::Fault;
  int survived = 0;
  for (const Fault fault : {Fault::kError, Fault::kFull, Fault::kPowerLoss}) {
    for (int64_t operation = 1;; ++operation) {
      FaultyDisk disk;
      const auto files = filesOn(disk);
      const FaultyVfs vfs(disk);
      disk.makeFolder("/data");
      disk.syncFolder("/");
      Opened opened = openAll(*files, vfs);
      ASSERT_TRUE(opened.blobs);
      std::map<std::string, bool> kept;  // content -> whether it was acknowledged
      disk.plan({fault, operation, 1});
      for (const std::string content : {"put", "put as well"}) {
        kept[content] = opened.blobs->put(content).ok();
      }
      kept["sent"] = [&] {
        auto upload = opened.blobs->startUpload(digestOf("sent"), 0);
        return upload.ok() && (*upload)->write("se").ok() && (*upload)->write("nt").ok() && (*upload)->commit().ok();
      }();
      kept["both"] = opened.store
                         ->transact([&](Transaction& tx) -> absl::Status {
                           absl::Status put = opened.blobs->put(digestOf("both"), "both");
                           return put.ok() ? tx.putBlob(digestOf("both"), "") : put;
                         })
                         .ok();
      if (kept["put"] && opened.blobs->remove(sha256Hex("put")).ok()) kept.erase("put");
      const bool struck = disk.struck();
      disk.cutPower();
      opened = {};
      disk.restart(FaultyDisk::Survival::kNothing, 0);
      opened = openAll(*files, vfs);
      ASSERT_TRUE(opened.blobs) << operation;
      for (const auto& [content, acknowledged] : kept) {
        const std::string sha256 = sha256Hex(content);
        EXPECT_TRUE(opened.blobs->contains(sha256) || !acknowledged) << content << ", operation " << operation;
        if (!opened.blobs->contains(sha256)) continue;
        EXPECT_OK(opened.blobs->get(sha256, 0, 0, [&](std::string_view chunk) {
          EXPECT_EQ(chunk, content);
          return absl::OkStatus();
        }));
      }
      EXPECT_EQ(*readOne(*opened.store, [](Reader& r) { return r.hasBlob(sha256Hex("both")); }),
                opened.blobs->contains(sha256Hex("both")))
          << "the row that says so and that of its bytes are one transaction's; operation " << operation;
      for (const std::string content : {"put", "put as well", "sent", "both"}) {
        EXPECT_TRUE(opened.blobs->put(content).ok())
            << "whatever happened, it can be sent again; operation " << operation;
      }
      if (!struck) break;
      ++survived;
    }
  }
  EXPECT_GT(survived, 60);
}

TEST(BlobRowsInMemory, AStoreThatKeepsNothingTakesThemToo) {
  const auto store = makeMemoryStore();
  BlobRows rows(store.get(), 10);
  EXPECT_TRUE(rows.takes(10));
  EXPECT_FALSE(rows.takes(11));
  ASSERT_OK(rows.put("name", "bytes"));
  EXPECT_EQ(*rows.get("name"), "bytes");
  EXPECT_EQ(*rows.totalBytes(), 5);
  ASSERT_OK(rows.removeDamaged("name", "others"));
  EXPECT_EQ(*rows.size("name"), 5);
  ASSERT_OK(rows.removeDamaged("name", "bytes"));
  EXPECT_TRUE(absl::IsNotFound(rows.size("name").status()));
  EXPECT_FALSE(BlobRows(nullptr, 10).takes(0));
}

}  // namespace
}  // namespace tessera::storage
