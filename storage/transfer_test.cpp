#include "storage/transfer.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/support/sha256.h"
#include "storage/blob_store.h"
#include "storage/cached_blob_store.h"
#include "storage/conformance/samples.h"
#include "storage/objects/folder_object_store.h"
#include "storage/postgres_store.h"
#include "storage/scratch_folder.h"
#include "storage/server_registry.h"
#include "storage/sqlite_store.h"
#include "storage/testing/postgres_server.h"
#include "storage/transfer_tables.h"

namespace tessera::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kJobs = 220;  // more than one page of a table

PostgresServer& server() { return **PostgresServer::shared(); }

std::string largeBlob(int number) { return std::string(100'000, 'x') + absl::StrCat(number); }

v1::Digest digestOf(const std::string& bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

/// A data folder with some of everything, an empty database, and an empty folder of objects.
class Transfer : public testing::Test {
 protected:
  void SetUp() override {
    uri_ = *server().createDatabase();
    fs::create_directory(folder_.file("objects"));
    data_ = folder_.file("data");
    fs::create_directory(data_);
    open();
    fill(0, kJobs);
  }

  void open() {
    store_ = openSqliteStore(data_ + "/tessera.db").value();
    blobs_ = openBlobStore(data_ + "/blobs", {.rows = store_.get()}).value();
  }
  void close() {
    blobs_.reset();
    store_.reset();
  }

  void put(const std::string& bytes) {
    ASSERT_OK(store_->transact([&](Transaction& tx) -> absl::Status {
      const absl::StatusOr<v1::Digest> digest = blobs_->put(bytes);
      EXPECT_OK(digest.status());
      return tx.putBlob(*digest, "vision", 7);
    }));
  }

  void fill(int first, int end) {
    for (int i = first; i < first + 3; ++i) {
      put(largeBlob(i));
      put(absl::StrCat("small ", i));
    }
    ASSERT_OK(store_->transact([&](Transaction& tx) {
      for (int i = first; i < end; ++i) {
        const std::string id = absl::StrCat("n", i);
        v1::Action action = sampleAction("action " + id, "key " + id, i);
        v1::KeyComponent& component = *action.add_components();
        component.set_name("model");
        component.set_hash(sha256Hex(id));
        EXPECT_OK(tx.putAction(action));
        EXPECT_OK(tx.insertJob(sampleJob("job " + id, 1000 - i), "hash", i % 5 == 0 ? "" : action.id()));
        EXPECT_OK(tx.putTask(sampleTask("task " + id, v1::BUILD, i % 3, i)));
        EXPECT_OK(tx.linkTask(action.id(), "task " + id));
        for (int event = 0; event < 3; ++event) {
          v1::JobEvent entry;
          entry.set_job_id("job " + id);
          EXPECT_OK(tx.appendEvent(entry).status());
        }
      }
      EXPECT_OK(tx.putArtifact(sampleArtifact(absl::StrCat("artifact ", first), "key", 5)));
      EXPECT_OK(tx.putRecord(sampleRecord(absl::StrCat("record ", first), 0.1 * (first + 1), 6)));
      EXPECT_OK(tx.putObject(absl::StrCat("build ", first), digestOf(largeBlob(first))));
      EXPECT_OK(tx.setPin(Kind::kJob, absl::StrCat("job n", first), true));
      EXPECT_OK(tx.takeTicket(1, absl::StrCat("client ", first)).status());
      EXPECT_OK(tx.putSetting("color", absl::StrCat("shade ", first)));
      v1::Worker worker;
      worker.set_id(absl::StrCat("worker ", first));
      return tx.putWorker(worker);
    }));
  }

  DataPlace database() const { return {uri_, folder_.file("objects")}; }
  absl::StatusOr<TransferStats> toDatabase() {
    return transfer({data_, ""}, database(), [](const std::string&, int64_t, int64_t) {});
  }
  absl::StatusOr<TransferStats> toFolder(const std::string& folder) {
    return transfer(database(), {folder, ""}, [](const std::string&, int64_t, int64_t) {});
  }

  ScratchFolder folder_;
  std::string uri_, data_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<BlobStore> blobs_;
};

std::vector<std::string> jobsOf(Store& store) {
  std::vector<std::string> jobs;
  ListQuery query;
  query.page_size = 1000;
  const auto page = readOne(store, [&](Reader& reader) { return reader.listJobs(query); });
  EXPECT_OK(page.status());
  if (page.ok()) {
    for (const v1::Job& job : page->items) jobs.push_back(job.SerializeAsString());
  }
  return jobs;
}

TEST_F(Transfer, EverythingArrivesAndComesBack) {
  const std::vector<std::string> jobs = jobsOf(*store_);
  const auto usage = readOne(*store_, [](Reader& reader) { return reader.usageOf("vision"); });
  close();
  const auto there = toDatabase();
  ASSERT_OK(there.status());
  EXPECT_TRUE(there->complete);
  EXPECT_EQ(there->blobs, 3);
  EXPECT_EQ(there->blobs_copied, 3);
  EXPECT_EQ(there->bytes_copied, static_cast<int64_t>(3 * largeBlob(0).size()));
  EXPECT_GT(there->rows, kJobs * 8);
  EXPECT_GE(there->rows_written, there->rows - 2) << "all but those that triggers wrote";
  {
    const auto store = openPostgresStore(uri_);
    ASSERT_OK(store.status());
    EXPECT_OK(checkTransferred(**store));
    EXPECT_EQ(jobsOf(**store), jobs);
    const auto counted = readOne(**store, [](Reader& reader) { return reader.usageOf("vision"); });
    EXPECT_EQ(counted->blob_bytes, usage->blob_bytes);
    EXPECT_EQ(readOne(**store, [](Reader& reader) { return reader.queueLength(); }).value(), kJobs);
    QueueQuery query;
    query.kinds = {v1::BUILD};
    EXPECT_EQ(readOne(**store, [&](Reader& reader) { return reader.nextReadyTask(query); })->id(), "task n2");
    // New rows come after the copied ones.
    EXPECT_OK((*store)->transact([](Transaction& tx) {
      EXPECT_OK(tx.insertJob(sampleJob("fresh"), "hash", "action n1"));
      EXPECT_OK(tx.putTask(sampleTask("fresh")));
      return tx.linkTask("action n1", "fresh");
    }));
    EXPECT_OK((*store)->transact([](Transaction& tx) { return tx.erase(Kind::kJob, "fresh"); }));
    CachedBlobStoreOptions options;
    options.local.rows = store->get();
    const auto blobs =
        openCachedBlobStore(folder_.file("cache"), *openFolderObjects(folder_.file("objects"), true), options);
    ASSERT_OK(blobs.status());
    for (const std::string& bytes : {largeBlob(1), std::string("small 1")}) {
      std::string read;
      EXPECT_OK((*blobs)->get(sha256Hex(bytes), 0, 0, [&](std::string_view chunk) {
        read += chunk;
        return absl::OkStatus();
      }));
      EXPECT_EQ(read, bytes);
    }
  }
  EXPECT_THAT(std::string(toDatabase().status().message()), HasSubstr("has data already"));

  const auto back = toFolder(folder_.file("back"));
  ASSERT_OK(back.status());
  EXPECT_TRUE(back->complete);
  EXPECT_EQ(back->blobs_copied, 3);
  data_ = folder_.file("back");
  open();
  EXPECT_EQ(jobsOf(*store_), jobs);
  EXPECT_TRUE(blobs_->contains(digestOf(largeBlob(2)).sha256()));
  EXPECT_TRUE(blobs_->contains(sha256Hex("small 2")));
}

TEST_F(Transfer, TheDigestIsThatOfTheRows) {
  close();
  const auto there = toDatabase();
  ASSERT_OK(there.status());
  const auto back = toFolder(folder_.file("back"));
  ASSERT_OK(back.status());
  EXPECT_EQ(there->digest, back->digest) << "the rows are equal after two copies";
  EXPECT_EQ(there->digest.size(), 64U);
}

TEST_F(Transfer, ARunOfAUsedSourceIsContinuedByTheNext) {
  const auto first = toDatabase();
  ASSERT_OK(first.status());
  EXPECT_FALSE(first->complete) << "the store is open";
  EXPECT_EQ(first->digest, "");
  {
    const auto store = openPostgresStore(uri_);
    ASSERT_OK(store.status());
    EXPECT_THAT(std::string(checkTransferred(**store).message()), HasSubstr("is not complete"));
  }
  fill(1000, 1010);
  ASSERT_OK(store_->transact([](Transaction& tx) {
    v1::Job job = *tx.getJob("job n7");
    job.set_state(v1::Job::FAILED);
    EXPECT_OK(tx.updateJob(job));
    EXPECT_OK(tx.erase(Kind::kJob, "job n8"));
    EXPECT_OK(tx.erase(Kind::kBlob, digestOf(largeBlob(0)).sha256()));
    return tx.setPin(Kind::kJob, "job n0", false);
  }));
  const std::vector<std::string> jobs = jobsOf(*store_);
  close();
  const auto second = toDatabase();
  ASSERT_OK(second.status());
  EXPECT_TRUE(second->complete);
  EXPECT_EQ(second->blobs_copied, 3) << "those of the first run are there";
  EXPECT_EQ(second->blobs, 5);
  EXPECT_LT(second->rows_written, 150);
  EXPECT_GT(second->rows_erased, 3);
  const auto store = openPostgresStore(uri_);
  ASSERT_OK(store.status());
  EXPECT_OK(checkTransferred(**store));
  EXPECT_EQ(jobsOf(**store), jobs);
}

TEST_F(Transfer, ABlobThatTheSourceHasLostIsLostInTheTarget) {
  close();
  const std::string gone = sha256Hex(largeBlob(0)), kept = sha256Hex(largeBlob(1));
  fs::remove(absl::StrCat(data_, "/blobs/", gone.substr(0, 2), "/", gone.substr(2, 2), "/", gone));
  const auto there = toDatabase();
  ASSERT_OK(there.status());
  EXPECT_TRUE(there->complete);
  EXPECT_EQ(there->blobs_missing, 1);
  const auto store = openPostgresStore(uri_);
  ASSERT_OK(store.status());
  EXPECT_FALSE(readOne(**store, [&](Reader& reader) { return reader.hasBlob(gone); }).value());
  EXPECT_TRUE(readOne(**store, [&](Reader& reader) { return reader.hasBlob(kept); }).value());
}

TEST_F(Transfer, AWrongObjectIsFoundAndCopiedAgain) {
  ASSERT_OK(toDatabase().status());
  close();
  const std::string sha256 = sha256Hex(largeBlob(1));
  std::string object;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.file("objects"))) {
    if (entry.path().filename() == sha256) object = entry.path();
  }
  ASSERT_FALSE(object.empty());
  fs::permissions(object, fs::perms::owner_all);
  {
    FILE* file = std::fopen(object.c_str(), "r+");
    std::fputc('?', file);
    std::fclose(file);
  }
  const auto found = toDatabase();
  EXPECT_TRUE(absl::IsDataLoss(found.status())) << found.status();
  const auto again = toDatabase();
  ASSERT_OK(again.status());
  EXPECT_TRUE(again->complete);
  EXPECT_EQ(again->blobs_copied, 1);
}

TEST_F(Transfer, OtherDataAreRefused) {
  close();
  const auto message = [](const absl::StatusOr<TransferStats>& result) {
    return std::string(result.status().message());
  };
  const auto quiet = [](const std::string&, int64_t, int64_t) {};
  EXPECT_THAT(message(transfer({data_, ""}, {folder_.file("other"), ""}, quiet)), HasSubstr("`tessera admin backup`"));
  EXPECT_THAT(message(transfer({data_, ""}, {uri_, ""}, quiet)), HasSubstr("name the object store"));
  EXPECT_THAT(message(transfer({folder_.file("nothing"), ""}, database(), quiet)), HasSubstr("it has no tessera.db"));
  {
    const auto store = openPostgresStore(uri_);
    ASSERT_OK((*store)->transact([](Transaction& tx) { return tx.putTask(sampleTask("theirs")); }));
  }
  EXPECT_THAT(message(toDatabase()), HasSubstr("has data already (table tasks)"));
  EXPECT_TRUE(fs::is_empty(folder_.file("objects")));
}

TEST_F(Transfer, ATargetInUseIsRefusedAndAUsedSourceIsNotComplete) {
  close();
  {
    ASSERT_OK(openPostgresStore(uri_).status());
  }
  const auto registry = openPostgresServerRegistry(uri_);
  ASSERT_OK(registry.status());
  ServerIdentity self;
  self.server.set_id("s1");
  self.home = "home";
  self.instance = "instance";
  ASSERT_OK((*registry)->beat(self, {}).status());
  EXPECT_THAT(std::string(toDatabase().status().message()), HasSubstr("1 servers use the target"));
  ASSERT_OK((*registry)->leave(self));
  ASSERT_OK(toDatabase().status());
  ASSERT_OK((*registry)->beat(self, {}).status());
  const auto back = toFolder(folder_.file("back"));
  ASSERT_OK(back.status());
  EXPECT_FALSE(back->complete);
  ASSERT_OK((*registry)->leave(self));
  const auto rest = toFolder(folder_.file("back"));
  ASSERT_OK(rest.status());
  EXPECT_TRUE(rest->complete);
  EXPECT_EQ(rest->blobs_copied, 0);
}

/// A table that a migration adds must be copied, or be known not to need it.
TEST_F(Transfer, EveryTableIsKnown) {
  {
    ASSERT_OK(openPostgresStore(uri_).status());
  }
  const std::string others =
      "schema_version store_writers task_queue queue_lengths blob_bytes_total servers server_duties server_calls "
      "server_values change_counts";
  std::string names = others;
  for (const CopiedTable& table : copiedTables()) {
    absl::StrAppend(&names, " ", table.name);
    const auto columns = server().query(
        uri_, absl::StrCat("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND "
                           "table_name = '",
                           table.name, "'"));
    EXPECT_EQ(*columns, absl::StrCat(table.columns.size())) << table.name;
  }
  EXPECT_EQ(
      *server().query(uri_, absl::StrCat("SELECT string_agg(table_name, ' ') FROM information_schema.tables WHERE "
                                         "table_schema = 'public' AND table_name <> ALL (string_to_array('",
                                         names, "', ' '))")),
      "");
}

}  // namespace
}  // namespace tessera::storage
