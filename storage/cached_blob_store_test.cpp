#include "storage/cached_blob_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

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
    if (!forbidden.ok()) return forbidden;
    return down ? unreachable() : inner_->put(name, file, digest);
  }
  absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override {
    return down ? unreachable() : inner_->get(name, offset, limit, sink);
  }
  absl::Status remove(const std::string& name) override { return down ? unreachable() : inner_->remove(name); }
  absl::Status list(const std::string& prefix, const std::string& after,
                    const std::function<bool(const ObjectInfo& object)>& visit) override {
    if (down) return unreachable();
    return inner_->list(prefix, after,
                        [&](const ObjectInfo& object) { return object.name == hidden || visit(object); });
  }
  absl::StatusOr<int> removeIncomplete(int64_t age_s) override { return inner_->removeIncomplete(age_s); }
  absl::Status checkWritable() override { return down ? unreachable() : inner_->checkWritable(); }
  std::string placeOf(const std::string& name) const override { return inner_->placeOf(name); }
  const ObjectRequests& requests() const override { return inner_->requests(); }

  bool down = false;
  absl::Status forbidden;  ///< the error of each put()
  std::string hidden;      ///< an object that listings do not show

 private:
  static absl::Status unreachable() { return absl::UnavailableError("the object store cannot be reached"); }

  const std::unique_ptr<ObjectStore> inner_;
};

/// A database that was restored elsewhere.
class Restored : public Store {
 public:
  explicit Restored(Store& origin) : origin_(origin) {}
  absl::Status transact(const std::function<absl::Status(Transaction&)>& body) override {
    return origin_.transact(body);
  }
  absl::Status read(const std::function<absl::Status(Reader&)>& body) override { return origin_.read(body); }
  std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) override {
    return origin_.listen(std::move(listener));
  }
  std::string origin() const override { return "elsewhere"; }

 private:
  Store& origin_;
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
  EXPECT_EQ(two_.requests().gets, 0) << "the rows say it";
  EXPECT_EQ(two_.requests().lists, 1) << "of the marks, at the start";
  EXPECT_EQ(*read(two_, sha256), bytes);
  EXPECT_EQ(*read(two_, sha256, 5, 7), bytes.substr(5, 7));
  EXPECT_EQ(two_.requests().gets, 1) << "the second read is of the copy";
  EXPECT_EQ(*read(one_, sha256), bytes);
  EXPECT_EQ(one_.requests().gets, 0) << "its own upload is its copy";
  EXPECT_EQ(one_.requests().puts, 2) << "with the mark";
  EXPECT_OK(store(two_, bytes));
  EXPECT_EQ(two_.requests().puts, 0) << "it exists";
  EXPECT_TRUE(absl::IsNotFound(read(two_, sha256Hex("never there")).status()));
  EXPECT_EQ(two_.requests().gets, 1) << "nor is a request sent for what has no row";
}

TEST_F(CachedBlobs, SmallBlobsStayRows) {
  const int64_t puts = one_.requests().puts;
  ASSERT_OK(store(one_, "small"));
  EXPECT_EQ(*read(two_, sha256Hex("small")), "small");
  EXPECT_EQ(one_.requests().puts + two_.requests().gets, puts);
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
  const int64_t lists = two_.requests().lists;
  EXPECT_TRUE(two_.blobs->findAbsent(names)->empty());
  EXPECT_EQ(two_.requests().lists, lists + 1);
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

TEST_F(CachedBlobs, AnUploadThatIsOftenInterruptedIsSharedOnce) {
  constexpr int64_t kPiece = int64_t{5} << 20;
  const std::string bytes = large('a', 5 * kPiece);
  const v1::Digest digest = digestOf(bytes);
  const auto sent = [&] { return one_.requests().bytes_sent + two_.requests().bytes_sent; };
  const auto received = [&] { return one_.requests().bytes_received + two_.requests().bytes_received; };
  const int64_t before = sent();
  for (int i = 0; i < 5; ++i) {
    Node& node = i % 2 == 0 ? one_ : two_;
    const int64_t offset = *node.blobs->committedBytes(digest, {"vision", true});
    ASSERT_EQ(offset, i * kPiece);
    auto upload = node.blobs->startUpload(digest, offset, {"vision", true});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes.substr(static_cast<size_t>(offset), kPiece)));
  }
  EXPECT_EQ(sent() - before, 5 * kPiece) << "each byte once";
  EXPECT_EQ(received(), 4 * kPiece) << "each server gets what the other has received since";
  {
    auto upload = two_.blobs->startUpload(digest, 5 * kPiece, {"vision", true});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes.substr(5 * kPiece)));
    ASSERT_OK((*upload)->commit());
  }
  EXPECT_TRUE(namesIn(*two_.objects).empty());
}

TEST_F(CachedBlobs, WrongPartsAreNotResumedAgain) {
  const std::string bytes = large('a', 9 << 20), other = large('b', 9 << 20);
  const v1::Digest digest = digestOf(bytes);
  {
    auto upload = one_.blobs->startUpload(digest, 0, {"vision", true});
    ASSERT_OK((*upload)->write(other.substr(0, 5 << 20)));
  }
  {
    auto upload = two_.blobs->startUpload(digest, 5 << 20, {"vision", true});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes.substr(5 << 20)));
    EXPECT_TRUE(absl::IsDataLoss((*upload)->commit()));
  }
  EXPECT_TRUE(namesIn(*two_.objects).empty());
  EXPECT_EQ(*two_.blobs->committedBytes(digest, {"vision", true}), 0);
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
  EXPECT_EQ(one_.requests().puts, 0) << "once";
  EXPECT_EQ(one_.requests().lists, 1) << "of the marks";
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

/// Opens the object store at `shared` for a database.
absl::Status openFor(Store& rows, const std::string& folder, const std::string& shared,
                     const std::string& replaces = "") {
  auto objects = openFolderObjects(shared);
  if (!objects.ok()) return objects.status();
  CachedBlobStoreOptions options;
  options.local.rows = &rows;
  options.replaces_mark = replaces;
  return openCachedBlobStore(folder, *std::move(objects), options).status();
}

/// The mark that a refusal names.
std::string markIn(const absl::Status& refused) {
  constexpr std::string_view kOption = "--bind-blobs ";
  const std::string text(refused.message());
  const size_t at = text.find(kOption);
  return at == std::string::npos ? "" : text.substr(at + kOption.size());
}

TEST_F(CachedBlobs, AnObjectStoreBelongsToOneDatabase) {
  auto other = openSqliteStore(folder_.file("other.db"));
  ASSERT_OK(other.status());
  const absl::Status refused = openFor(**other, folder_.file("three"), shared_);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(absl::IsFailedPrecondition(openFor(**other, folder_.file("three"), shared_, "another"))) << refused;
  EXPECT_TRUE((openFor(*rows_, folder_.file("five"), shared_)).ok()) << "still its owner's";
  ASSERT_OK(openFor(**other, folder_.file("three"), shared_, markIn(refused)));
  EXPECT_TRUE((openFor(**other, folder_.file("three"), shared_, markIn(refused))).ok())
      << "without effect from then on";
  EXPECT_TRUE(absl::IsFailedPrecondition(openFor(*rows_, folder_.file("five"), shared_))) << "it was taken over";
}

TEST_F(CachedBlobs, ARestoredDatabaseIsNotTheOwnerOfItsOriginsObjects) {
  Restored restored(*rows_);
  const absl::Status refused = openFor(restored, folder_.file("three"), shared_);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_OK(openFor(restored, folder_.file("three"), shared_, markIn(refused)));
}

TEST_F(CachedBlobs, AnObjectStoreWithoutTheMarkIsAnotherOne) {
  ASSERT_OK(store(one_, large('a')));
  const std::string wrong = folder_.file("wrong");
  fs::create_directory(wrong);
  const absl::Status refused = openFor(*rows_, folder_.file("three"), wrong);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(markIn(refused), "none");
  EXPECT_OK(openFor(*rows_, folder_.file("three"), wrong, "none"));
  // Objects of a database that an earlier release or an accident left without a mark.
  fs::remove_all(shared_ + "/marks");
  auto other = openSqliteStore(folder_.file("other.db"));
  ASSERT_OK(other.status());
  EXPECT_EQ(markIn(openFor(**other, folder_.file("four"), shared_)), "none");
}

TEST_F(CachedBlobs, AListingThatLagsLosesNothing) {
  ASSERT_OK(store(one_, large('a')));
  ASSERT_OK(store(one_, large('b')));
  const std::string hidden = sha256Hex(large('a')), gone = sha256Hex(large('b'));
  two_.objects->hidden = "blobs/" + hidden;
  fs::remove(objectOf(large('b')));
  std::vector<std::string> names = {hidden, gone};
  std::ranges::sort(names);
  EXPECT_EQ(*two_.blobs->findAbsent(names), std::vector<std::string>{gone});
  EXPECT_TRUE(two_.blobs->contains(hidden));
}

TEST_F(CachedBlobs, AnUploadWaitsForTheRemovalOfItsObject) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  const auto beginRemoval = [&](int64_t age_s) {
    return rows_->transact([&](Transaction& tx) -> absl::Status {
      TESSERA_RETURN_IF_ERROR(tx.erase(Kind::kBlob, sha256));
      TESSERA_RETURN_IF_ERROR(tx.putBlob(digestOf(bytes), ""));
      TESSERA_RETURN_IF_ERROR(tx.touch(Kind::kBlob, sha256, (time(nullptr) - age_s) * int64_t{1'000'000}));
      return tx.beginBlobRemoval(sha256);
    });
  };
  ASSERT_OK(beginRemoval(1200));
  EXPECT_FALSE(two_.blobs->contains(sha256));
  EXPECT_TRUE((store(two_, bytes)).ok()) << "the server that removed it is dead";
  ASSERT_OK(beginRemoval(0));
  std::atomic<bool> erased = false;
  std::thread collection([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    fs::remove(objectOf(bytes));
    erased = true;
    EXPECT_OK(rows_->transact([&](Transaction& tx) { return tx.erase(Kind::kBlob, sha256); }));
  });
  EXPECT_OK(store(two_, bytes));
  EXPECT_TRUE(erased) << "the object would have been removed after it was stored";
  collection.join();
  EXPECT_TRUE(fs::exists(objectOf(bytes)));
}

TEST_F(CachedBlobs, APutWithinATransactionAsksNoObjectStore) {
  const std::string bytes = large('a');
  const int64_t puts = one_.requests().puts;
  one_.objects->down = true;
  ASSERT_OK(rows_->transact([&](Transaction& tx) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(one_.blobs->put(bytes).status());
    return tx.putBlob(digestOf(bytes), "vision", 1);
  }));
  EXPECT_EQ(one_.requests().puts, puts);
  EXPECT_EQ(*read(two_, sha256Hex(bytes)), bytes);
}

TEST_F(CachedBlobs, TheObjectOfADiscardedBlobIsRemovedUnlessItWasStoredAgain) {
  for (const char letter : {'a', 'b'}) ASSERT_OK(store(one_, large(letter)));
  // The row of b exists, as after an upload to another server. Discarded blobs are removed in order.
  ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.erase(Kind::kBlob, sha256Hex(large('a'))); }));
  one_.blobs->discard({digestOf(large('b')), digestOf(large('a'))});
  for (int i = 0; i < 1000 && fs::exists(objectOf(large('a'))); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(fs::exists(objectOf(large('a'))));
  EXPECT_TRUE(fs::exists(objectOf(large('b'))));
  EXPECT_EQ(*read(two_, sha256Hex(large('b'))), large('b'));
  ASSERT_OK(store(two_, large('a')));  // waits for the end of the removal
  EXPECT_EQ(*read(one_, sha256Hex(large('a'))), large('a'));
}

TEST_F(CachedBlobs, TheRemovalOfAnObjectKeepsARow) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  ASSERT_OK(store(one_, bytes));
  // A collection has marked the blob as lost; a transaction then stores the bytes as a row.
  ASSERT_OK(rows_->transact([&](Transaction& tx) { return tx.beginBlobRemoval(sha256); }));
  ASSERT_OK(rows_->transact([&](Transaction& tx) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(one_.blobs->put(bytes).status());
    return tx.putBlob(digestOf(bytes), "vision", 1);
  }));
  ASSERT_OK(one_.blobs->removeFile(sha256));
  EXPECT_FALSE(fs::exists(objectOf(bytes)));
  EXPECT_EQ(*read(one_, sha256), bytes);
  EXPECT_EQ(*read(two_, sha256), bytes);
}

TEST_F(CachedBlobs, ABodyThatRunsAgainFindsItsUpload) {
  const std::string bytes = large('a'), sha256 = sha256Hex(bytes);
  auto upload = one_.blobs->startUpload(digestOf(bytes), 0);
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write(bytes));
  ASSERT_OK((*upload)->commit());
  const auto body = [&](Transaction& tx) -> absl::Status {
    if (!one_.blobs->contains(sha256)) return absl::AbortedError("send it again");
    TESSERA_RETURN_IF_ERROR(tx.putBlob(digestOf(bytes), "vision", 1));
    return one_.blobs->contains(sha256) ? absl::OkStatus() : absl::InternalError("the row says it");
  };
  EXPECT_TRUE(absl::IsCancelled(rows_->transact([&](Transaction& tx) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(body(tx));
    return absl::CancelledError("undone, as after a conflict");
  })));
  EXPECT_OK(rows_->transact(body));
  EXPECT_TRUE(((*upload)->commit()).ok()) << "it may be repeated as well";
}

TEST_F(CachedBlobs, ErrorsOfTheOperatorAreNotTheClients) {
  for (const absl::Status& error :
       {absl::UnauthenticatedError("key AKIA of bucket b"), absl::PermissionDeniedError("key AKIA of bucket b"),
        absl::FailedPreconditionError("key AKIA of bucket b")}) {
    one_.objects->forbidden = error;
    const absl::Status status = one_.blobs->put(large('a')).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::Not(testing::HasSubstr("AKIA")));
  }
}

}  // namespace
}  // namespace tessera::storage
