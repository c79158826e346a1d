#include "storage/backup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"
#include "storage/blob_store.h"
#include "storage/conformance/samples.h"
#include "storage/scratch_folder.h"
#include "storage/sqlite_store.h"

namespace tessera::storage {
namespace {

namespace fs = std::filesystem;

/// A data folder with an open store.
struct Data {
  explicit Data(const std::string& folder)
      : store(openSqliteStore(folder + "/tessera.db").value()),
        blobs(openBlobStore(folder + "/blobs", {.rows = store.get()}).value()) {}
  /// Puts a blob that is a file.
  void add(const std::string& text) { addBytes(text + std::string(70'000, '.')); }
  void addRow(const std::string& text) { addBytes(text); }
  void addBytes(const std::string& bytes) {
    const v1::Digest digest = blobs->put(bytes).value();
    ASSERT_OK(store->transact([&](Transaction& t) {
      absl::Status status = t.putBlob(digest, kDefaultProject);
      return status.ok() ? t.insertJob(sampleJob("job of " + digest.sha256()), "h", "") : status;
    }));
  }
  /// Checks that each blob with a row exists and is intact; returns the number of rows.
  int check() {
    int rows = 0;
    EXPECT_TRUE(store
                    ->read([&](Reader& reader) {
                      return reader.forEach(Kind::kBlob, [&](const Stored& stored) {
                        ++rows;
                        EXPECT_TRUE(reader.getJob("job of " + stored.id).ok())
                            << "what was one transaction is one in the backup";
                        return blobs->get(stored.id, 0, 0, [](std::string_view) { return absl::OkStatus(); });
                      });
                    })
                    .ok());
    return rows;
  }

  std::unique_ptr<Store> store;
  std::unique_ptr<BlobStore> blobs;
};

TEST(Backup, OfAFolderInUseIsOneMomentOfIt) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  Data data(scratch.file("data"));
  for (int i = 0; i < 100; ++i) {
    data.add("before " + std::to_string(i));
    data.addRow("before " + std::to_string(i));
  }
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      data.add("during " + std::to_string(i));
      data.addRow("during " + std::to_string(i));
    }
  });
  const auto made = backUp(scratch.file("data"), scratch.file("backup"));
  stop = true;
  writer.join();
  ASSERT_OK(made.status());
  EXPECT_GE(made->blobs, 100);

  ASSERT_OK(restore(scratch.file("backup"), scratch.file("restored")).status());
  Data restored(scratch.file("restored"));
  EXPECT_GE(restored.check(), 200);
  restored.add("afterwards");
  EXPECT_EQ(fs::status(scratch.file("backup")).permissions(), fs::perms::owner_all);
}

TEST(Backup, CopiesOnlyWhatIsNew) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  Data data(scratch.file("data"));
  data.add("one");
  data.add("two");
  EXPECT_EQ(backUp(scratch.file("data"), scratch.file("backup"))->blobs, 2);
  data.add("three");
  data.addRow("three, in the database");
  EXPECT_EQ(backUp(scratch.file("data"), scratch.file("backup"))->blobs, 1);
  ASSERT_OK(restore(scratch.file("backup"), scratch.file("restored")).status());
  EXPECT_EQ(Data(scratch.file("restored")).check(), 4);
}

TEST(Backup, ARestoredDatabaseIsAnotherOne) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  const auto id = [&](const std::string& folder) {
    const auto store = openSqliteStore(scratch.file(folder + "/tessera.db"));
    EXPECT_OK(store.status());
    return *readOne(**store, [](Reader& r) { return r.setting("id"); });
  };
  {
    const auto store = openSqliteStore(scratch.file("data/tessera.db"));
    ASSERT_OK(store.status());
    ASSERT_OK((*store)->transact([](Transaction& t) { return t.putSetting("id", "original"); }));
    ASSERT_OK(backUp(scratch.file("data"), scratch.file("backup")).status());
  }
  ASSERT_OK(restore(scratch.file("backup"), scratch.file("restored")).status());
  EXPECT_EQ(id("restored"), "") << "both would delete objects of the other";
  EXPECT_EQ(id("data"), "original");
}

TEST(Backup, RestoresOverNothingThatIsThere) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  Data data(scratch.file("data"));
  data.add("one");
  EXPECT_TRUE(absl::IsNotFound(restore(scratch.file("no backup"), scratch.file("x")).status()));
  EXPECT_TRUE(absl::IsNotFound(backUp(scratch.file("no data"), scratch.file("x")).status()));
  ASSERT_OK(backUp(scratch.file("data"), scratch.file("backup")).status());
  EXPECT_TRUE(absl::IsFailedPrecondition(restore(scratch.file("backup"), scratch.file("data")).status()));
}

TEST(Backup, TakesThePlaceOfNoDatabaseThatAServiceUses) {
  ScratchFolder scratch;
  for (const char* name : {"data", "other"}) fs::create_directories(scratch.file(name));
  Data data(scratch.file("data"));
  data.add("one");
  fs::create_directory_symlink(scratch.file("data"), scratch.file("link"));
  const auto written = fs::last_write_time(scratch.file("data") + "/tessera.db");
  for (const std::string& folder : {scratch.file("data"), scratch.file("data") + "/", scratch.file("data/backup"),
                                    scratch.file("other/../data"), scratch.file("link"), scratch.file("link/backup")}) {
    const absl::Status status = backUp(scratch.file("data"), folder).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << folder << ": " << status;
  }
  EXPECT_FALSE(fs::exists(scratch.file("data/backup")));
  EXPECT_EQ(fs::last_write_time(scratch.file("data") + "/tessera.db"), written);
  ASSERT_OK(backUp(scratch.file("data"), scratch.file("data beside")).status());
  {
    const Data other(scratch.file("other"));
    EXPECT_TRUE(absl::IsFailedPrecondition(backUp(scratch.file("data"), scratch.file("other")).status()));
  }
  // After the process has ended, its log may hold data that the database file lacks.
  EXPECT_TRUE(absl::IsFailedPrecondition(backUp(scratch.file("data"), scratch.file("other")).status()));
}

TEST(Backup, IsMadeByOneAtATime) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  Data data(scratch.file("data"));
  data.add("one");
  ASSERT_OK(backUp(scratch.file("data"), scratch.file("backup")).status());
  const int held = open(scratch.file("backup").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  EXPECT_TRUE(absl::IsAborted(backUp(scratch.file("data"), scratch.file("backup")).status()));
  close(held);
  EXPECT_OK(backUp(scratch.file("data"), scratch.file("backup")).status());
}

TEST(Backup, SaysThatItsDiskIsFull) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  Data data(scratch.file("data"));
  data.add("a blob of some length");
  // A file size limit simulates a full disk: no file of this size can be written.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit bound{30'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &bound), 0);
  const absl::Status status = backUp(scratch.file("data"), scratch.file("backup")).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("cannot write " + scratch.file("backup")));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("free some space"));
  // Without the limit, continuing from the interrupted copy.
  EXPECT_OK(backUp(scratch.file("data"), scratch.file("backup")).status());
}

TEST(Backup, NoticesABlobThatIsNotWhole) {
  ScratchFolder scratch;
  fs::create_directories(scratch.file("data"));
  Data data(scratch.file("data"));
  data.add("a blob of some length");
  ASSERT_OK(backUp(scratch.file("data"), scratch.file("backup")).status());
  for (const auto& entry : fs::recursive_directory_iterator(scratch.file("backup") + "/blobs")) {
    if (entry.is_regular_file()) fs::resize_file(entry.path(), 3);
  }
  EXPECT_TRUE(absl::IsAborted(backUp(scratch.file("data"), scratch.file("backup")).status()));
  EXPECT_TRUE(absl::IsAborted(restore(scratch.file("backup"), scratch.file("restored")).status()));
  EXPECT_FALSE(fs::exists(scratch.file("restored") + "/tessera.db"));
}

}  // namespace
}  // namespace tessera::storage
