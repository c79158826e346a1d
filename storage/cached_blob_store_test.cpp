#include "storage/cached_blob_store.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "gmock/gmock.h"
#include "proto/messages/blob_path.h"
#include "proto/support/status_macros.h"
#include "storage/blobs_place.h"
#include "storage/objects/folder_object_store.h"
#include "storage/testing/blob_store_bench.h"

namespace tessera::storage {
namespace {

namespace fs = std::filesystem;

/// Passes everything on, unless told to fail.
class FailingObjects : public ObjectStore {
 public:
  explicit FailingObjects(std::unique_ptr<ObjectStore> inner) : inner_(std::move(inner)) {}
  absl::Status put(const std::string& name, const File& file, const v1::Digest& digest) override {
    return down ? unreachable() : inner_->put(name, file, digest);
  }
  absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override {
    return down ? unreachable() : inner_->get(name, offset, limit, sink);
  }
  absl::Status remove(const std::string& name) override { return down ? unreachable() : inner_->remove(name); }
  absl::Status list(const std::string& prefix, const std::string& after,
                    const std::function<bool(const ObjectInfo& object)>& visit) override {
    return down ? unreachable() : inner_->list(prefix, after, visit);
  }
  absl::StatusOr<int> removeIncomplete(int64_t age_s) override { return inner_->removeIncomplete(age_s); }
  absl::Status checkWritable() override { return down ? unreachable() : inner_->checkWritable(); }
  std::string placeOf(const std::string& name) const override { return inner_->placeOf(name); }
  const ObjectRequests& requests() const override { return inner_->requests(); }

  bool down = false;

 private:
  static absl::Status unreachable() { return absl::UnavailableError("the object store cannot be reached"); }

  const std::unique_ptr<ObjectStore> inner_;
};

/// Two servers with one database and one folder of objects.
class CachedBlobs : public testing::Test {
 protected:
  void SetUp() override {
    auto rows = openSqliteStore(folder_.file("tessera.db"));
    ASSERT_OK(rows.status());
    rows_ = *std::move(rows);
    fs::create_directory(shared_);
    start(one_, "one");
    start(two_, "two");
  }

  struct Node {
    std::unique_ptr<BlobStore> blobs;
    FailingObjects* objects = nullptr;
    std::string folder;
    const ObjectRequests& requests() const { return objects->requests(); }
  };

  void start(Node& node, const std::string& name, int64_t cache_bytes = int64_t{64} << 20) {
    node.blobs.reset();
    auto objects = openFolderObjects(shared_);
    ASSERT_OK(objects.status());
    auto failing = std::make_unique<FailingObjects>(*std::move(objects));
    node.objects = failing.get();
    node.folder = folder_.file(name);
    CachedBlobStoreOptions options;
    options.local.rows = rows_.get();
    options.local.partial_lifetime_seconds = partial_lifetime_s_;
    options.cache_bytes = cache_bytes;
    auto blobs = openCachedBlobStore(node.folder, std::move(failing), options);
    ASSERT_OK(blobs.status());
    node.blobs = *std::move(blobs);
  }

  /// Stores a blob and its row, as a server does.
  absl::Status store(Node& node, const std::string& bytes) {
    TESSERA_RETURN_IF_ERROR(node.blobs->put(bytes).status());
    return writeRow(node, bytes);
  }
  absl::Status writeRow(Node& node, const std::string& bytes) {
    return rows_->transact([&](Transaction& tx) -> absl::Status {
      if (!node.blobs->contains(sha256Hex(bytes))) return absl::AbortedError("send it again");
      return tx.putBlob(digestOf(bytes), "vision", 1);
    });
  }
  static absl::StatusOr<std::string> read(Node& node, const std::string& sha256, int64_t offset = 0,
                                          int64_t limit = 0) {
    std::string bytes;
    TESSERA_RETURN_IF_ERROR(node.blobs->get(sha256, offset, limit, [&](std::string_view chunk) {
      bytes.append(chunk);
      return absl::OkStatus();
    }));
    return bytes;
  }
  /// Names of the unfinished uploads in the object store.
  static std::vector<std::string> namesIn(ObjectStore& objects) {
    std::vector<std::string> names;
    EXPECT_OK(objects.list("partials/", "", [&](const ObjectInfo& object) {
      names.push_back(object.name);
      return true;
    }));
    return names;
  }
  bool hasRow(const std::string& bytes) {
    return *readOne(*rows_, [&](Reader& reader) { return reader.hasBlob(sha256Hex(bytes)); });
  }
  std::string objectOf(const std::string& bytes) const {
    return shared_ + "/blobs/" + blobRelativePath(sha256Hex(bytes));
  }
  std::string copyOf(const Node& node, const std::string& bytes) const {
    return node.folder + "/" + blobRelativePath(sha256Hex(bytes));
  }
  static std::string large(char fill, size_t size = 1 << 20) { return std::string(size, fill) + "end"; }

  ScratchFolder folder_;
  const std::string shared_ = folder_.file("shared");
  int64_t partial_lifetime_s_ = 604'800;
  std::unique_ptr<Store> rows_;
  Node one_, two_;
};

TEST_F(CachedBlobs, ABlobOfOneServerIsReadOnAnother) {
  const std::string bytes = large('a');
  const std::string sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  EXPECT_TRUE(two_.blobs->contains(sha256));
  EXPECT_EQ(*two_.blobs->size(sha256), static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(two_.blobs->missing({digestOf(bytes)}).empty());
  EXPECT_EQ(two_.requests().gets + two_.requests().lists, 0) << "the rows say it";
  EXPECT_EQ(*read(two_, sha256), bytes);
  EXPECT_EQ(*read(two_, sha256, 5, 7), bytes.substr(5, 7));
  EXPECT_EQ(two_.requests().gets, 1) << "the second read is of the copy";
  EXPECT_EQ(*read(one_, sha256), bytes);
  EXPECT_EQ(one_.requests().gets, 0) << "its own upload is its copy";
  EXPECT_EQ(one_.requests().puts, 1);
  EXPECT_OK(store(two_, bytes));
  EXPECT_EQ(two_.requests().puts, 0) << "it exists";
  EXPECT_TRUE(absl::IsNotFound(read(two_, sha256Hex("never there")).status()));
  EXPECT_EQ(two_.requests().gets, 1) << "nor is a request sent for what has no row";
}

TEST_F(CachedBlobs, SmallBlobsStayRows) {
  ASSERT_OK(store(one_, "small"));
  EXPECT_EQ(*read(two_, sha256Hex("small")), "small");
  EXPECT_EQ(one_.requests().puts + two_.requests().gets, 0);
  std::map<std::string, int64_t> seen;
  ASSERT_OK(store(one_, large('a')));
  ASSERT_OK(two_.blobs->forEach([&](const std::string& sha256, int64_t bytes, int64_t) {
    EXPECT_TRUE(seen.emplace(sha256, bytes).second);
    return absl::OkStatus();
  }));
  EXPECT_EQ(seen, (std::map<std::string, int64_t>{{sha256Hex("small"), 5}, {sha256Hex(large('a')), (1 << 20) + 3}}));
  ASSERT_OK(two_.blobs->remove(sha256Hex("small")));
  ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.erase(Kind::kBlob, sha256Hex("small")); }));
  EXPECT_FALSE(one_.blobs->contains(sha256Hex("small")));
}

TEST_F(CachedBlobs, TheLeastRecentlyReadCopiesAreEvicted) {
  start(two_, "two", int64_t{2} << 21);  // four blobs fit less one byte
  const auto blob = [](char name) { return large(name, (1 << 20) - 3); };
  for (const char name : {'a', 'b', 'c', 'd', 'e'}) ASSERT_OK(store(one_, blob(name)));
  for (const char name : {'a', 'b', 'c', 'd'}) EXPECT_EQ(*read(two_, sha256Hex(blob(name))), blob(name));
  EXPECT_EQ(*read(two_, sha256Hex(blob('a')), 0, 1), "a");
  EXPECT_EQ(*read(two_, sha256Hex(blob('e'))), blob('e'));
  EXPECT_TRUE(fs::exists(copyOf(two_, blob('a'))));
  EXPECT_FALSE(fs::exists(copyOf(two_, blob('b'))));
  EXPECT_EQ(two_.blobs->remoteStats()->cache_evictions, 1);
  EXPECT_LE(two_.blobs->remoteStats()->cache_bytes, int64_t{2} << 21);
  EXPECT_EQ(*read(two_, sha256Hex(blob('b'))), blob('b')) << "it is fetched again";
  EXPECT_EQ(two_.requests().gets, 6);
  start(two_, "two", int64_t{1} << 21);
  EXPECT_LE(two_.blobs->remoteStats()->cache_bytes, int64_t{1} << 21) << "a smaller bound counts from the start";
}

TEST_F(CachedBlobs, ABlobLargerThanTheCacheIsPassedThrough) {
  start(two_, "two", 1000);
  const std::string bytes = large('a', 3 << 20);
  const std::string sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  EXPECT_EQ(*read(two_, sha256, 100, 1000), bytes.substr(100, 1000));
  EXPECT_EQ(*read(two_, sha256), bytes);
  EXPECT_FALSE(fs::exists(copyOf(two_, bytes)));
  const std::string own = large('b');
  ASSERT_OK(store(two_, own));
  EXPECT_FALSE(fs::exists(copyOf(two_, own))) << "its copy goes when the object is stored";
  EXPECT_EQ(*read(two_, sha256Hex(own)), own);
}

TEST_F(CachedBlobs, ADamagedCopyIsFetchedAgain) {
  const std::string bytes = large('a', 100'000);
  ASSERT_OK(store(one_, bytes));
  fs::permissions(copyOf(one_, bytes), fs::perms::owner_all);
  std::fstream(copyOf(one_, bytes), std::ios::in | std::ios::out).seekp(9) << 'Z';
  EXPECT_EQ(*read(one_, sha256Hex(bytes)), bytes);
  EXPECT_EQ(one_.requests().gets, 1);
  fs::resize_file(copyOf(one_, bytes), 10);
  EXPECT_EQ(*read(one_, sha256Hex(bytes), 5, 20), bytes.substr(5, 20));
  EXPECT_TRUE(one_.blobs->damaged()->empty()) << "the blob itself is whole";
}

TEST_F(CachedBlobs, ALostObjectIsNoticedAndHealed) {
  const std::string bytes = large('a');
  const std::string sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  EXPECT_TRUE(one_.blobs->contains(sha256));
  fs::remove(objectOf(bytes));
  EXPECT_TRUE(two_.blobs->contains(sha256)) << "until it is read";
  const absl::Status status = read(two_, sha256).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(objectOf(bytes)));
  EXPECT_TRUE(absl::IsNotFound(two_.blobs->size(sha256).status())) << "so that its row is marked";
  ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.markBlobLost(sha256); }));
  EXPECT_FALSE(one_.blobs->contains(sha256));
  ASSERT_OK(store(two_, bytes));
  EXPECT_TRUE(fs::exists(objectOf(bytes)));
  EXPECT_EQ(*read(two_, sha256), bytes);
  EXPECT_TRUE(one_.blobs->contains(sha256));
}

TEST_F(CachedBlobs, AnObjectWithWrongBytesIsNoticedAndHealed) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  for (const bool shorter : {false, true}) {
    ASSERT_OK(store(one_, bytes));
    if (shorter) {
      fs::resize_file(objectOf(bytes), 1000);
    } else {
      std::fstream(objectOf(bytes), std::ios::in | std::ios::out).seekp(9) << 'Z';
    }
    EXPECT_TRUE(absl::IsDataLoss(two_.blobs->verify(sha256, [](std::string_view) { return absl::OkStatus(); })));
    EXPECT_EQ(*two_.blobs->damaged(), std::vector<std::string>{sha256});
    start(two_, "two");
    EXPECT_TRUE(absl::IsDataLoss(read(two_, sha256).status()));
    EXPECT_EQ(two_.requests().gets, 2) << "it is tried twice";
    EXPECT_FALSE(fs::exists(copyOf(two_, bytes)));
    ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.markBlobLost(sha256); }));
    ASSERT_OK(store(two_, bytes));
    EXPECT_TRUE(two_.blobs->damaged()->empty());
    EXPECT_EQ(*read(two_, sha256), bytes);
    ASSERT_OK(two_.blobs->remove(sha256));
    ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.erase(Kind::kBlob, sha256); }));
    start(one_, "one");
  }
}

TEST_F(CachedBlobs, AbsentObjectsAreFoundByAListing) {
  std::vector<std::string> names;
  for (const char name : {'a', 'b', 'c', 'd', 'e', 'f'}) {
    ASSERT_OK(store(one_, large(name)));
    names.push_back(sha256Hex(large(name)));
  }
  ASSERT_OK(store(one_, "small"));
  names.push_back(sha256Hex("small"));
  std::ranges::sort(names);
  EXPECT_TRUE(two_.blobs->findAbsent(names)->empty());
  EXPECT_EQ(two_.requests().lists, 1);
  std::vector<std::string> lost = {sha256Hex(large('b')), sha256Hex(large('e')), sha256Hex(large('f'))};
  std::ranges::sort(lost);
  for (const char name : {'b', 'e', 'f'}) fs::remove(objectOf(large(name)));
  EXPECT_EQ(*two_.blobs->findAbsent(names), lost);
  EXPECT_FALSE(two_.blobs->contains(lost[0]));
  EXPECT_TRUE(two_.blobs->contains(sha256Hex(large('a'))));
  EXPECT_TRUE(two_.blobs->findAbsent({})->empty());
}

TEST_F(CachedBlobs, ACopyWithoutARowIsNoBlob) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  ASSERT_OK(read(two_, sha256).status());
  // A collection on server one.
  ASSERT_OK(one_.blobs->remove(sha256));
  ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.erase(Kind::kBlob, sha256); }));
  EXPECT_TRUE(fs::exists(copyOf(two_, bytes)));
  EXPECT_FALSE(two_.blobs->contains(sha256));
  EXPECT_EQ(*two_.blobs->committedBytes(digestOf(bytes)), 0);
  auto upload = two_.blobs->startUpload(digestOf(bytes), 0, {"vision", true});
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write(bytes));
  ASSERT_OK((*upload)->commit());
  EXPECT_TRUE(fs::exists(objectOf(bytes))) << "it is stored again, from the copy";
  ASSERT_OK(writeRow(two_, bytes));
  start(one_, "one");
  EXPECT_EQ(*read(one_, sha256), bytes);
}

TEST_F(CachedBlobs, ASmallCopyWithoutARowDoesNotStandForARow) {
  const std::string whole = "composed, and small";
  {
    auto upload = one_.blobs->startComposed(digestOf(whole), {{"", static_cast<int64_t>(whole.size())}});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(whole));
    ASSERT_OK((*upload)->commit());
    ASSERT_OK(writeRow(one_, whole));
  }
  EXPECT_EQ(*read(two_, sha256Hex(whole)), whole);
  ASSERT_OK(one_.blobs->remove(sha256Hex(whole)));
  ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.erase(Kind::kBlob, sha256Hex(whole)); }));
  ASSERT_OK(store(two_, whole));
  EXPECT_EQ(*read(one_, sha256Hex(whole)), whole);
}

TEST_F(CachedBlobs, AnUploadClaimsTheRowBeforeTheObjectIsWritten) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  ASSERT_OK(one_.blobs->put(bytes).status());
  EXPECT_FALSE(hasRow(bytes)) << "nobody may rely on it yet";
  const int64_t used_us = *readOne(*rows_, [&](Reader& reader) { return reader.lastUse(Kind::kBlob, sha256); });
  EXPECT_GT(used_us, (time(nullptr) - 100) * int64_t{1'000'000}) << "a collection on another server leaves it alone";
  EXPECT_TRUE(one_.blobs->contains(sha256));
  EXPECT_FALSE(two_.blobs->contains(sha256));
  ASSERT_OK(writeRow(one_, bytes));
  EXPECT_TRUE(two_.blobs->contains(sha256));
}

TEST_F(CachedBlobs, AnUploadInProgressIsNotRemoved) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  {
    auto upload = one_.blobs->startUpload(digestOf(bytes), 0);
    ASSERT_OK((*upload)->write(bytes));
    EXPECT_TRUE(absl::IsAborted(one_.blobs->remove(sha256)));
    ASSERT_OK((*upload)->commit());
    EXPECT_TRUE(absl::IsAborted(one_.blobs->remove(sha256))) << "its row may be on the way";
  }
  ASSERT_OK(one_.blobs->remove(sha256));
  EXPECT_FALSE(one_.blobs->contains(sha256));
  EXPECT_TRUE(absl::IsAborted(writeRow(one_, bytes)));
  EXPECT_OK(one_.blobs->remove(sha256));
}

TEST_F(CachedBlobs, AnUploadContinuesOnAnotherServer) {
  const std::string bytes = large('a', 9 << 20), sha256 = sha256Hex(bytes);
  const v1::Digest digest = digestOf(bytes);
  const int64_t sent = 5 << 20;
  {
    auto upload = one_.blobs->startUpload(digest, 0, {"vision", true});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes.substr(0, sent)));
  }
  EXPECT_EQ(*two_.blobs->committedBytes(digest, {"speech", true}), 0) << "of another project";
  ASSERT_EQ(*two_.blobs->committedBytes(digest, {"vision", true}), sent);
  EXPECT_EQ(*one_.blobs->committedBytes(digest, {"vision", true}), sent);
  {
    auto upload = two_.blobs->startUpload(digest, sent, {"vision", true});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes.substr(sent)));
    ASSERT_OK((*upload)->commit());
    ASSERT_OK(writeRow(two_, bytes));
  }
  EXPECT_TRUE(namesIn(*two_.objects).empty()) << "the part is not needed any more";
  EXPECT_EQ(*read(one_, sha256), bytes);
}

TEST_F(CachedBlobs, AbandonedPartsAreRemoved) {
  const std::string bytes = large('a', 9 << 20);
  {
    auto upload = one_.blobs->startUpload(digestOf(bytes), 0, {"vision", true});
    ASSERT_OK((*upload)->write(bytes.substr(0, 5 << 20)));
  }
  EXPECT_EQ(namesIn(*one_.objects).size(), 1u);
  EXPECT_EQ(*two_.blobs->removeStalePartials(), 0);
  partial_lifetime_s_ = 0;
  start(two_, "two");
  EXPECT_EQ(*two_.blobs->removeStalePartials(), 1);
  EXPECT_TRUE(namesIn(*one_.objects).empty());
}

TEST_F(CachedBlobs, ABlobIsComposedOfOthersThatAreElsewhere) {
  const std::string middle = large('m'), whole = "head" + middle + "tail";
  ASSERT_OK(store(one_, middle));
  auto upload = two_.blobs->startComposed(digestOf(whole),
                                          {{"", 4}, {sha256Hex(middle), static_cast<int64_t>(middle.size())}, {"", 4}});
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write("headtail"));
  ASSERT_OK((*upload)->commit());
  ASSERT_OK(writeRow(two_, whole));
  EXPECT_EQ(*read(one_, sha256Hex(whole)), whole);
  EXPECT_TRUE(absl::IsNotFound(two_.blobs->startComposed(digestOf("x"), {{sha256Hex("absent"), 1}}).status()));
}

TEST_F(CachedBlobs, TheBlobsOfAServerOnItsOwnAreStoredWhenItStarts) {
  const std::string kept = large('a'), unnamed = large('b');
  const std::string folder = folder_.file("alone");
  {
    BlobStoreOptions options;
    options.rows = rows_.get();
    auto alone = openBlobStore(folder, options);
    ASSERT_OK(alone.status());
    ASSERT_OK((*alone)->put(kept).status());
    ASSERT_OK((*alone)->put(unnamed).status());
    ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.putBlob(digestOf(kept), "vision", 1); }));
  }
  EXPECT_EQ(*readBlobsPlace(folder, systemFiles()), "");
  start(one_, "alone");
  EXPECT_EQ(*read(two_, sha256Hex(kept)), kept);
  EXPECT_FALSE(fs::exists(objectOf(unnamed))) << "it has no row";
  EXPECT_EQ(*readBlobsPlace(folder, systemFiles()), one_.objects->placeOf("")) << "so that it is not started without";
  start(one_, "alone");
  EXPECT_EQ(one_.requests().puts + one_.requests().lists, 0) << "once";
}

TEST_F(CachedBlobs, AnUnreachableStoreIsNotALoss) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  one_.objects->down = two_.objects->down = true;
  EXPECT_EQ(*read(one_, sha256), bytes) << "the copy is there";
  EXPECT_TRUE(absl::IsUnavailable(read(two_, sha256).status()));
  EXPECT_TRUE(two_.blobs->contains(sha256));
  EXPECT_TRUE(absl::IsUnavailable(two_.blobs->findAbsent({sha256}).status()));
  const std::string other = large('b');
  EXPECT_TRUE(absl::IsUnavailable(store(two_, other)));
  EXPECT_FALSE(two_.blobs->contains(sha256Hex(other)));
  one_.objects->down = two_.objects->down = false;
  EXPECT_TRUE(store(two_, other).ok()) << "sent again, it is stored";
  EXPECT_EQ(*read(two_, sha256), bytes);
}

}  // namespace
}  // namespace tessera::storage
