// Blobs of bytes that are present already: composed of other blobs, or placed by a worker on the same disk.
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/messages/blob_path.h"
#include "proto/support/status_macros.h"
#include "storage/testing/blob_store_bench.h"
#include "storage/testing/faulty_disk.h"
#include "storage/testing/faulty_files.h"

namespace tessera::storage {
namespace {

/// Composes a blob of a head, another blob and a tail.
absl::Status compose(BlobStore& store, const std::string& before, const std::string& middle, const std::string& behind,
                     const std::string& sent, const v1::Digest& digest) {
  auto upload = store.startComposed(digest, {{"", static_cast<int64_t>(before.size())},
                                             {sha256Hex(middle), static_cast<int64_t>(middle.size())},
                                             {"", static_cast<int64_t>(behind.size())}});
  if (!upload.ok()) return upload.status();
  for (size_t at = 0; at < sent.size(); at += 7) {
    TESSERA_RETURN_IF_ERROR((*upload)->write(std::string_view(sent).substr(at, 7)));
  }
  return (*upload)->commit();
}

TEST_P(BlobStoreTest, AComposedBlobSharesTheBytesOfWhatItIsMadeOf) {
  for (const std::string& middle : {bytes_, std::string("m"), std::string()}) {
    for (const std::string& before : {std::string("head"), std::string()}) {
      const std::string behind = "the tail, longer than a piece";
      const std::string whole = before + middle + behind;
      const v1::Digest digest = digestOf(whole);
      ASSERT_OK(store_->put(middle).status());
      ASSERT_OK(compose(*store_, before, middle, behind, before + behind, digest));
      EXPECT_EQ(*store_->size(digest.sha256()), digest.size_bytes());
      EXPECT_EQ(*read(digest.sha256()), whole);
      for (int64_t offset : {int64_t{0}, int64_t{3}, int64_t{4}, int64_t{5}, digest.size_bytes() - 1}) {
        for (int64_t limit : {int64_t{1}, int64_t{9}, int64_t{1} << 21}) {
          EXPECT_EQ(*read(digest.sha256(), offset, limit), whole.substr(offset, limit)) << offset << " " << limit;
        }
      }
      EXPECT_EQ(std::filesystem::hard_link_count(pathOf(sha256Hex(middle))), 2u);
      EXPECT_EQ(*store_->committedBytes(digest), digest.size_bytes());
      // The blob outlives its parts, also after a restart.
      ASSERT_OK(store_->remove(sha256Hex(middle)));
      reopen({});
      EXPECT_EQ(*read(digest.sha256()), whole);
      std::map<std::string, int64_t> seen;
      ASSERT_OK(store_->forEach([&](const std::string& sha256, int64_t bytes, int64_t) {
        seen[sha256] = bytes;
        return absl::OkStatus();
      }));
      EXPECT_EQ(seen, (std::map<std::string, int64_t>{{digest.sha256(), digest.size_bytes()}}));
      ASSERT_OK(store_->remove(digest.sha256()));
      EXPECT_FALSE(store_->contains(digest.sha256()));
      EXPECT_EQ(filesIn("parts") + filesIn("tmp"), 0);
    }
  }
}

TEST_P(BlobStoreTest, WhatIsNotTheBlobIsNotComposed) {
  ASSERT_OK(store_->put(bytes_).status());
  const v1::Digest digest = digestOf("head" + bytes_ + "tail");
  EXPECT_TRUE(absl::IsDataLoss(compose(*store_, "head", bytes_, "tail", "headtaiL", digest)));
  EXPECT_TRUE(absl::IsDataLoss(compose(*store_, "head", bytes_, "tail", "headtai", digest)));
  EXPECT_TRUE(absl::IsDataLoss(compose(*store_, "head", bytes_, "tail", "headtails", digest)));
  EXPECT_TRUE(absl::IsInvalidArgument(compose(*store_, "head", bytes_, "tails", "headtails", digest)));
  EXPECT_TRUE(absl::IsInvalidArgument(compose(*store_, "hea", bytes_, "tail", "heatail", digest)));
  EXPECT_TRUE(absl::IsNotFound(compose(*store_, "head", "absent", "tail", "headtail", digest)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      store_->startComposed(digest, {{digest_.sha256(), digest_.size_bytes() - 1}, {"", 9}}).status()));
  EXPECT_FALSE(store_->contains(digest.sha256()));
  EXPECT_EQ(filesIn("parts") + filesIn("tmp"), 0);
  ASSERT_OK(compose(*store_, "head", bytes_, "tail", "headtail", digest));
  EXPECT_OK(compose(*store_, "head", bytes_, "tail", "headtail", digest));  // the blob exists
  if (isRow(bytes_)) return;                                                // rows share no bytes
  // Damage of the shared bytes: each blob is moved aside when it is read.
  std::filesystem::permissions(pathOf(digest_.sha256()), std::filesystem::perms::owner_all);
  std::fstream(pathOf(digest_.sha256()), std::ios::in | std::ios::out | std::ios::binary).seekp(99).put('b');
  EXPECT_TRUE(absl::IsDataLoss(read(digest.sha256()).status()));
  EXPECT_FALSE(store_->contains(digest.sha256()));
  EXPECT_EQ(filesIn("parts"), 0);
  EXPECT_TRUE(absl::IsDataLoss(read(digest_.sha256()).status()));
}

// With Hashed::kTrusted, as for a placed file, the bytes are not verified at the commit; a wrong digest is detected
// when they are read.
TEST_P(BlobStoreTest, WhatWasHashedHereIsComposedWithoutAPass) {
  using DigestSource = BlobStore::DigestSource;
  ASSERT_OK(store_->put(bytes_).status());
  const auto composed = [&](const v1::Digest& digest, std::string_view sent) -> absl::Status {
    auto upload =
        store_->startComposed(digest, {{"", 4}, {digest_.sha256(), digest_.size_bytes()}}, DigestSource::kTrusted);
    if (!upload.ok()) return upload.status();
    const absl::Status written = (*upload)->write(sent);
    return written.ok() ? (*upload)->commit() : written;
  };
  const v1::Digest digest = digestOf("head" + bytes_);
  EXPECT_TRUE(absl::IsDataLoss(composed(digest, "hea")));
  EXPECT_TRUE(absl::IsDataLoss(composed(digest, "header")));
  ASSERT_OK(composed(digest, "head"));
  EXPECT_EQ(*read(digest.sha256()), "head" + bytes_);
  const v1::Digest other = digestOf("tail" + bytes_);
  ASSERT_OK(composed(other, "head"));
  EXPECT_TRUE(absl::IsDataLoss(read(other.sha256()).status()));
  EXPECT_FALSE(store_->contains(other.sha256()));
}

TEST_P(BlobStoreTest, APlacedFileBecomesTheBlobWithoutACopy) {
  const std::string name = digest_.sha256() + ".placed_7";
  const std::string placed = root_ + "/tmp/" + name;
  std::ofstream(placed, std::ios::binary) << bytes_ << "!";
  EXPECT_TRUE(absl::IsDataLoss(store_->startPlaced(digest_, name).status()));
  std::filesystem::resize_file(placed, bytes_.size());
  std::filesystem::permissions(placed, std::filesystem::perms::owner_read);
  const std::string own = folder_.file("worker");
  std::filesystem::create_hard_link(placed, own);
  for (const std::string& wrong :
       {digest_.sha256(), digest_.sha256() + ".placed_", name + "/../../x", std::string("placed_7"),
        digestOf("x").sha256() + ".placed_7", digest_.sha256() + ".placed-7"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->startPlaced(digest_, wrong).status())) << wrong;
  }
  EXPECT_TRUE(absl::IsNotFound(store_->startPlaced(digest_, digest_.sha256() + ".placed_8").status()));
  {
    auto upload = store_->startPlaced(digest_, name);
    ASSERT_OK(upload.status());
    EXPECT_TRUE(absl::IsAborted(store_->startPlaced(digest_, name).status()));
    EXPECT_TRUE(absl::IsInvalidArgument((*upload)->write("x")));
    ASSERT_OK((*upload)->commit());
  }
  EXPECT_TRUE(std::filesystem::equivalent(own, pathOf(digest_.sha256())));
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
  EXPECT_EQ(filesIn("tmp"), 0);
  std::ofstream(placed, std::ios::binary) << "of a worker that was killed";
  reopen({});
  EXPECT_EQ(filesIn("tmp"), 0);
  auto again = store_->startPlaced(digest_, name);
  ASSERT_OK(again.status());
  EXPECT_OK((*again)->commit());  // the blob exists
}

TEST_P(BlobStoreTest, WhatAWorkerPlacedAndLeftGoesWithTime) {
  const auto place = [&](const std::string& number, std::chrono::hours age) {
    const std::string path = root_ + "/tmp/" + digest_.sha256() + ".placed_" + number;
    std::ofstream(path, std::ios::binary) << bytes_;
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
    return path;
  };
  const std::string old = place("7-1", std::chrono::hours(24 * 8)), young = place("8-1", std::chrono::hours(24 * 6));
  const std::string taken = place("9-1", std::chrono::hours(24 * 8));
  auto upload = store_->startPlaced(digest_, digest_.sha256() + ".placed_9-1");
  ASSERT_OK(upload.status());
  EXPECT_EQ(*store_->removeStalePartials(), 0) << "the blob is taken in just now";
  EXPECT_TRUE(std::filesystem::exists(taken));
  EXPECT_OK((*upload)->commit());
  upload->reset();
  EXPECT_EQ(*store_->removeStalePartials(), 1) << "what lay there for a week";
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young));
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
}

TEST_P(BlobStoreTest, AProjectMayBeCalledAsPlacedFilesOnceWere) {
  {
    auto upload = store_->startUpload(digest_, 0, {"placed-7"});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes_.substr(0, 10)));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(store_->startPlaced(digest_, digest_.sha256() + ".placed-7").status()))
      << "what a client sends is no file of a worker's";
  reopen({});
  EXPECT_EQ(filesIn("tmp"), 1) << "its upload goes on after a start";
  EXPECT_EQ(store_->unfinishedBytes("placed-7", ""), 10);
}

TEST(BlobStoreOnAFaultyDisk, AComposedBlobIsWholeOrAbsentWhereverPowerIsLost) {
  const std::string middle(5000, 'm');
  const v1::Digest digest = digestOf("head" + middle + "tail");
  int acknowledged = 0, kept = 0;
  for (auto survival :
       {FaultyDisk::Survival::kNothing, FaultyDisk::Survival::kSome, FaultyDisk::Survival::kEverything}) {
    bool done = false;
    for (int64_t operation = 1; !done; ++operation) {
      FaultyDisk disk;
      const auto files = filesOn(disk);
      auto store = openOn(*files);
      ASSERT_OK(store.status());
      ASSERT_OK((*store)->put(middle).status());
      disk.plan({FaultyDisk::Fault::kPowerLoss, operation, 1});
      const bool made = compose(**store, "head", middle, "tail", "headtail", digest).ok();
      // The loop has covered each operation of composing, and some of removing the parts.
      done = made && (*store)->remove(sha256Hex(middle)).ok();
      store->reset();
      disk.cutPower();
      disk.restart(survival, static_cast<uint32_t>(operation));
      store = openOn(*files);
      ASSERT_OK(store.status());
      std::string bytes;
      const absl::Status read = (*store)->get(digest.sha256(), 0, 0, [&](std::string_view chunk) {
        bytes.append(chunk);
        return absl::OkStatus();
      });
      EXPECT_EQ((*store)->contains(digest.sha256()), read.ok()) << operation << ": " << read;
      EXPECT_TRUE(!made || read.ok()) << operation << ": " << read;
      if (read.ok()) EXPECT_EQ(bytes, "head" + middle + "tail");
      acknowledged += made;
      kept += read.ok() && !made;
      // Leftovers do not prevent another attempt.
      ASSERT_OK((*store)->put(middle).status());
      EXPECT_OK(compose(**store, "head", middle, "tail", "headtail", digest));
      ASSERT_OK((*store)->remove(digest.sha256()));
      EXPECT_TRUE(files->list("/blobs/parts")->empty());
    }
  }
  EXPECT_GT(acknowledged, 3);
  EXPECT_GT(kept, 0) << "power was never lost between the rename and the answer";
}

// The body of a transaction, which commits uploads, may run several times.
TEST_P(BlobStoreTest, ACommitMayBeRepeated) {
  ASSERT_OK(store_->put("middle").status());
  const std::string whole = "head of it, middle";
  auto composed = store_->startComposed(digestOf(whole), {{"", 12}, {sha256Hex("middle"), 6}});
  ASSERT_OK(composed.status());
  ASSERT_OK((*composed)->write("head of it, "));
  const std::string placed_bytes = "placed by a worker";
  const v1::Digest placed_digest = digestOf(placed_bytes);
  const std::string name = absl::StrCat(placed_digest.sha256(), kPlacedBlobInfix, "1");
  std::ofstream(root_ + "/tmp/" + name) << placed_bytes;
  auto placed = store_->startPlaced(placed_digest, name);
  ASSERT_OK(placed.status());
  auto sent = store_->startUpload(digest_, 0);
  ASSERT_OK(sent.status());
  ASSERT_OK((*sent)->write(bytes_));
  const std::string known = "another project's";
  ASSERT_OK(store_->put(known).status());
  auto proof = store_->startUpload(digestOf(known), 0, {"vision", true});
  ASSERT_OK(proof.status());
  ASSERT_OK((*proof)->write(known));
  for (int i = 0; i < 3; ++i) {
    for (const auto& upload : {&composed, &placed, &sent, &proof}) EXPECT_TRUE(((**upload)->commit()).ok()) << i;
  }
  EXPECT_EQ(*read(sha256Hex(whole)), whole);
  EXPECT_EQ(*read(placed_digest.sha256()), placed_bytes);
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
}

}  // namespace
}  // namespace tessera::storage
