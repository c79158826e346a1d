#include "storage/blob_store.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "gmock/gmock.h"
#include "proto/support/status_macros.h"
#include "storage/testing/blob_store_bench.h"
#include "storage/testing/faulty_disk.h"
#include "storage/testing/faulty_files.h"

namespace tessera::storage {
namespace {

using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, BlobStoreTest, testing::Values(-1, 64 << 10, 8 << 20), nameOfMostRowBytes);

TEST_P(BlobStoreTest, Sha256IsTheStandards) {  // examples of FIPS 180-4
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_P(BlobStoreTest, PutBlobsComeBackWholeOrInPart) {
  for (const std::string& bytes : {bytes_, std::string("x"), std::string()}) {
    auto digest = store_->put(bytes);
    ASSERT_OK(digest.status());
    EXPECT_EQ(digest->sha256(), sha256Hex(bytes));
    EXPECT_OK(store_->put(bytes).status());
    EXPECT_TRUE(store_->contains(digest->sha256()));
    EXPECT_EQ(*store_->size(digest->sha256()), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(*read(digest->sha256()), bytes);
  }
  EXPECT_EQ(*read(digest_.sha256(), 3 << 20), "end");
  EXPECT_EQ(*read(digest_.sha256(), (3 << 20) - 1, 2), "ae");
  EXPECT_EQ(*read(digest_.sha256(), (3 << 20) + 3), "");
  EXPECT_TRUE(absl::IsOutOfRange(read(digest_.sha256(), (3 << 20) + 4).status()));
  EXPECT_TRUE(absl::IsOutOfRange(read(digest_.sha256(), -1).status()));
  EXPECT_EQ(filesIn("tmp"), 0);
}

TEST_P(BlobStoreTest, AbsentAndMalformedNamesAreToldApart) {
  EXPECT_TRUE(absl::IsNotFound(read(digest_.sha256()).status()));
  EXPECT_TRUE(absl::IsNotFound(read("../../../etc/passwd").status()));
  EXPECT_FALSE(store_->contains(""));
  v1::Digest bad = digest_;
  bad.set_sha256("../" + digest_.sha256().substr(3));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->startUpload(bad, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->committedBytes(bad).status()));
  bad = digest_;
  bad.set_size_bytes(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(store_->startUpload(bad, 0).status()));
  ASSERT_OK(store_->put("here").status());
  const auto missing = store_->missing({digestOf("here"), digest_});
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].sha256(), digest_.sha256());
}

TEST_P(BlobStoreTest, AnUploadResumesWhereItStopped) {
  EXPECT_EQ(*store_->committedBytes(digest_), 0);
  {
    auto upload = store_->startUpload(digest_, 0);
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes_.substr(0, 2'000'000)));
  }
  EXPECT_FALSE(store_->contains(digest_.sha256()));
  reopen({});
  ASSERT_EQ(*store_->committedBytes(digest_), 2'000'000);
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->startUpload(digest_, 1'999'999).status()));
  auto upload = store_->startUpload(digest_, 2'000'000);
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write(bytes_.substr(2'000'000)));
  ASSERT_OK((*upload)->commit());
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
  EXPECT_EQ(*store_->committedBytes(digest_), digest_.size_bytes());
}

TEST_P(BlobStoreTest, WrongContentIsDiscarded) {
  const auto uploadOf = [&](const std::string& bytes) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(auto upload, store_->startUpload(digest_, 0));
    TESSERA_RETURN_IF_ERROR(upload->write(bytes));
    return upload->commit();
  };
  EXPECT_TRUE(absl::IsDataLoss(uploadOf(bytes_ + "x"))) << "too long";
  EXPECT_TRUE(absl::IsDataLoss(uploadOf(bytes_.substr(1)))) << "too short";
  std::string wrong = bytes_;
  wrong[5] = 'b';
  EXPECT_TRUE(absl::IsDataLoss(uploadOf(wrong))) << "another hash";
  EXPECT_FALSE(store_->contains(digest_.sha256()));
  EXPECT_EQ(*store_->committedBytes(digest_), 0);
  EXPECT_OK(uploadOf(bytes_));
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
}

TEST_P(BlobStoreTest, APartialFileDamagedOnDiskIsFoundOut) {
  {
    auto upload = store_->startUpload(digest_, 0);
    ASSERT_OK((*upload)->write(bytes_.substr(0, 1000)));
  }
  std::fstream(root_ + "/tmp/" + digest_.sha256(), std::ios::in | std::ios::out).seekp(10) << 'Z';
  auto upload = store_->startUpload(digest_, 1000);
  ASSERT_OK(upload.status());
  ASSERT_OK((*upload)->write(bytes_.substr(1000)));
  EXPECT_TRUE(absl::IsDataLoss((*upload)->commit()));
  EXPECT_FALSE(store_->contains(digest_.sha256()));
}

TEST_P(BlobStoreTest, UploadsOfADigestGoOnSideBySide) {
  BlobStoreOptions options;
  options.max_total_bytes = 3 * digest_.size_bytes();
  reopen(options);
  auto idle = store_->startUpload(digest_, 0);
  ASSERT_OK(idle.status());
  ASSERT_OK((*idle)->write(bytes_.substr(0, 2000)));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->startUpload(digest_, 2001).status()));
  auto second = store_->startUpload(digest_, 1000), third = store_->startUpload(digest_, 0);
  ASSERT_OK(second.status());
  ASSERT_OK(third.status());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->startUpload(digest_, 0).status())) << "each of them takes room";
  ASSERT_OK((*third)->write(bytes_.substr(0, 3000)));
  ASSERT_OK((*second)->write(bytes_.substr(1000)));
  ASSERT_OK((*idle)->write(bytes_.substr(2000, 1000)));
  ASSERT_OK((*second)->commit());
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
  ASSERT_OK((*idle)->write(bytes_.substr(3000)));
  ASSERT_OK((*third)->write(bytes_.substr(3000, 1)));
  EXPECT_TRUE(absl::IsDataLoss((*third)->commit())) << "it is not whole";
  ASSERT_OK((*idle)->commit());
  for (auto* upload : {&idle, &second, &third}) upload->value().reset();
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
  EXPECT_EQ(filesIn("tmp"), 0);
  v1::Digest large = digestOf("of two times the size");
  large.set_size_bytes(2 * digest_.size_bytes());
  EXPECT_TRUE(store_->startUpload(large, 0).ok()) << "the blob counts once";
}

TEST_P(BlobStoreTest, OfUploadsSideBySideTheLongestIsGoneOnWith) {
  for (const bool longer : {false, true}) {
    {
      auto first = store_->startUpload(digest_, 0);
      ASSERT_OK((*first)->write(bytes_.substr(0, 2000)));
      auto beside = store_->startUpload(digest_, 1000);
      ASSERT_OK((*beside)->write(bytes_.substr(1000, longer ? 2500 : 500)));
      first->reset();
    }
    EXPECT_EQ(*store_->committedBytes(digest_), longer ? 3500 : 2000);
    EXPECT_EQ(filesIn("tmp"), 1);
  }
  auto last = store_->startUpload(digest_, 3500);
  ASSERT_OK(last.status());
  ASSERT_OK((*last)->write(bytes_.substr(3500)));
  EXPECT_OK((*last)->commit());
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
}

TEST_P(BlobStoreTest, AnUploadWhoseBlobIsThereEndsAtOnce) {
  auto first = store_->startUpload(digest_, 0);
  ASSERT_OK(first.status());
  EXPECT_OK(store_->startUpload(digestOf("another"), 0).status());
  EXPECT_OK(store_->put(bytes_).status());        // put() does not wait for the upload
  auto second = store_->startUpload(digest_, 0);  // the blob exists now
  ASSERT_OK(second.status());
  EXPECT_OK((*second)->write("whatever"));
  EXPECT_OK((*second)->commit());
  ASSERT_OK((*first)->write(bytes_));
  EXPECT_OK((*first)->commit());
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
  first->reset();
  second->reset();
  EXPECT_EQ(*store_->committedBytes(digest_), digest_.size_bytes());
}

TEST_P(BlobStoreTest, ManyThreadsStoreTheSameBlobs) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 30; ++i) EXPECT_OK(store_->put("blob " + std::to_string(i)).status());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(*read(sha256Hex("blob " + std::to_string(i))), "blob " + std::to_string(i));
  EXPECT_EQ(filesIn("tmp"), 0);
}

TEST_P(BlobStoreTest, ADamagedBlobIsSetAsideAndCanBeUploadedAgain) {
  if (isRow(bytes_)) GTEST_SKIP() << "of rows blob_rows_test says it";
  const std::pair<const char*, std::function<void()>> damages[] = {
      {"a flipped byte",
       [&] { std::fstream(pathOf(digest_.sha256()), std::ios::in | std::ios::out).seekp(1 << 20) << 'Z'; }},
      {"cut short", [&] { std::filesystem::resize_file(pathOf(digest_.sha256()), 2 << 20); }},
      {"emptied", [&] { std::filesystem::resize_file(pathOf(digest_.sha256()), 0); }},
  };
  int aside = 0;
  for (const auto& [name, damage] : damages) {
    ASSERT_OK(store_->put(bytes_).status());
    damage();
    int64_t delivered = 0;
    absl::Status status = store_->get(digest_.sha256(), 0, 0, [&](std::string_view chunk) {
      delivered += static_cast<int64_t>(chunk.size());
      return absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
    EXPECT_LT(delivered, digest_.size_bytes()) << "nobody gets all of a wrong blob";
    EXPECT_FALSE(store_->contains(digest_.sha256())) << name;
    EXPECT_EQ(filesIn("corrupt"), ++aside);
  }
  ASSERT_OK(store_->put(bytes_).status());
  EXPECT_EQ(*read(digest_.sha256()), bytes_);
}

TEST_P(BlobStoreTest, TheSinkMayStopARead) {
  ASSERT_OK(store_->put(bytes_).status());
  int chunks = 0;
  absl::Status status = store_->get(digest_.sha256(), 0, 0, [&](std::string_view) {
    ++chunks;
    return absl::CancelledError("enough");
  });
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(chunks, 1);
  EXPECT_TRUE(store_->contains(digest_.sha256()));
}

TEST_P(BlobStoreTest, LimitsAndLeftovers) {
  {
    auto upload = store_->startUpload(digest_, 0);
    ASSERT_OK((*upload)->write("aaa"));
  }
  std::ofstream(root_ + "/tmp/" + digest_.sha256() + ".1") << "left by a put";
  reopen({.max_blob_bytes = 100});
  EXPECT_EQ(filesIn("tmp"), 1) << "the upload can be resumed, the put cannot";
  absl::Status status = store_->startUpload(digest_, 0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 100"));
  EXPECT_TRUE(absl::IsResourceExhausted(store_->put(bytes_).status()));
  reopen({.partial_lifetime_seconds = -1});
  EXPECT_EQ(filesIn("tmp"), 0);
}

TEST_P(BlobStoreTest, ADigestWithAnotherSizeIsRefused) {
  ASSERT_OK(store_->put("four").status());
  v1::Digest wrong = digestOf("four");
  wrong.set_size_bytes(5);
  const absl::Status status = store_->startUpload(wrong, 0).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: its size, which is 4"));
}

TEST_P(BlobStoreTest, TheQuotaCountsWhatComesAndGoes) {
  ASSERT_OK(store_->put(std::string(600, 'a')).status());
  BlobStoreOptions options;
  options.max_total_bytes = 1000;
  reopen(options);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->put(std::string(401, 'b')).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(store_->startUpload(digest_, 0).status()));
  ASSERT_OK(store_->put(std::string(400, 'b')).status());
  EXPECT_TRUE(store_->put(std::string(600, 'a')).ok()) << "what is there takes no room";
  EXPECT_TRUE(absl::IsResourceExhausted(store_->put("c").status()));
  ASSERT_OK(store_->remove(sha256Hex(std::string(600, 'a'))));
  ASSERT_OK(store_->remove(sha256Hex("never there")));
  EXPECT_FALSE(store_->contains(sha256Hex(std::string(600, 'a'))));
  ASSERT_OK(store_->put(std::string(599, 'c')).status());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->put("de").status()));
}

TEST_P(BlobStoreTest, UnfinishedUploadsTakeRoomTooAndTheirProjectsAreKnown) {
  const std::string first(600, 'a'), second(401, 'b');
  BlobStoreOptions options;
  options.max_total_bytes = 1000;
  reopen(options);
  {
    auto upload = store_->startUpload(digestOf(first), 0, {"vision"});
    ASSERT_OK(upload.status());
    EXPECT_EQ(store_->unfinishedBytes("vision", ""), 600) << "what it announced";
    EXPECT_EQ(store_->unfinishedBytes("vision", digestOf(first).sha256()), 0);
    EXPECT_EQ(store_->unfinishedBytes("speech", digestOf(first).sha256()), 0);
    EXPECT_TRUE(absl::IsResourceExhausted(store_->put(second).status()));
  }
  EXPECT_EQ(store_->unfinishedBytes("vision", ""), 0);
  EXPECT_EQ(filesIn("tmp"), 0) << "nothing came of it";
  {
    auto upload = store_->startUpload(digestOf(first), 0, {"vision"});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(first.substr(0, 599)));
  }
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(store_->unfinishedBytes("vision", ""), 599) << "what came";
    EXPECT_EQ(store_->unfinishedBytes("", ""), 0);
    EXPECT_TRUE(absl::IsResourceExhausted(store_->put(second + "b").status()));
    EXPECT_TRUE(absl::IsResourceExhausted(store_->startUpload(digestOf(second + "b"), 0, {"speech"}).status()));
    EXPECT_OK(store_->startUpload(digestOf(second), 0, {"speech"}).status());
    reopen(options);
  }
  {
    auto upload = store_->startUpload(digestOf(first), 599, {"vision"});
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write("a"));
    ASSERT_OK((*upload)->commit());
  }
  EXPECT_EQ(store_->unfinishedBytes("vision", ""), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->put(second).status())) << "counted once, as a blob";
  EXPECT_OK(store_->put(std::string(400, 'c')).status());
  ASSERT_OK(store_->remove(digestOf(first).sha256()));
  options.partial_lifetime_seconds = -2;
  reopen(options);
  {
    auto upload = store_->startUpload(digestOf(first), 0, {"vision"});
    ASSERT_OK((*upload)->write("a"));
  }
  EXPECT_EQ(store_->unfinishedBytes("vision", ""), 1);
  EXPECT_EQ(*store_->removeStalePartials(), 1);
  EXPECT_EQ(store_->unfinishedBytes("vision", ""), 0);
}

TEST_P(BlobStoreTest, TheReserveIsLeftToTheDatabase) {
  BlobStoreOptions options;
  options.reserve_bytes = int64_t{1} << 60;
  reopen(options);
  const absl::Status status = store_->put("x").status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("are kept for the database"));
  options.reserve_bytes = 1;
  reopen(options);
  EXPECT_OK(store_->put("x").status());
}

TEST_P(BlobStoreTest, EveryBlobIsVisitedOnce) {
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < 40; ++i) {
    auto digest = store_->put(std::string(static_cast<size_t>(i), 'x'));
    ASSERT_OK(digest.status());
    expected[digest->sha256()] = i;
  }
  std::map<std::string, int64_t> found;
  ASSERT_OK(store_->forEach([&](const std::string& sha256, int64_t bytes, int64_t age_s) {
    EXPECT_TRUE(found.emplace(sha256, bytes).second);
    EXPECT_LT(age_s, 3600);
    return absl::OkStatus();
  }));
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(absl::IsCancelled(
      store_->forEach([](const std::string&, int64_t, int64_t) { return absl::CancelledError("enough"); })));
}

TEST_P(BlobStoreTest, ABlobThatIsUploadedIsNotRemoved) {
  BlobStoreOptions options;
  options.partial_lifetime_seconds = -2;  // makes each partial file stale, since file timestamps are coarse
  reopen(options);
  {
    auto upload = store_->startUpload(digest_, 0);
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes_.substr(0, 1000)));
    EXPECT_EQ(*store_->removeStalePartials(), 0) << "it is in use";
    ASSERT_OK((*upload)->write(bytes_.substr(1000)));
    ASSERT_OK((*upload)->commit());
    EXPECT_TRUE(absl::IsAborted(store_->remove(digest_.sha256()))) << "its row may be on the way";
  }
  EXPECT_OK(store_->remove(digest_.sha256()));
  {
    auto upload = store_->startUpload(digest_, 0);
    ASSERT_OK((*upload)->write("begun"));
  }
  EXPECT_EQ(*store_->removeStalePartials(), 1);
  EXPECT_EQ(*store_->committedBytes(digest_), 0);
}

TEST_P(BlobStoreTest, WhetherBlobsCanBeWrittenIsTriedOut) {
  EXPECT_OK(store_->checkWritable());
  EXPECT_EQ(filesIn("tmp"), 0) << "and nothing is left of it";
  EXPECT_GT(*store_->freeBytes(), 0);
  FaultyDisk disk;
  const auto files = filesOn(disk);
  auto store = openOn(*files);
  ASSERT_OK(store.status());
  EXPECT_OK((*store)->checkWritable());
  disk.plan({FaultyDisk::Fault::kFull, 1, 1000});
  EXPECT_FALSE((*store)->checkWritable().ok());
}

TEST(BlobStoreOnAFaultyDisk, WhatAFailedSyncLeftIsNotTrusted) {
  FaultyDisk disk;
  const auto files = filesOn(disk);
  auto store = openOn(*files);
  ASSERT_OK(store.status());
  const std::string bytes(5000, 'x');
  const v1::Digest digest = digestOf(bytes);
  {
    auto upload = (*store)->startUpload(digest, 0);
    ASSERT_OK(upload.status());
    ASSERT_OK((*upload)->write(bytes));
    disk.plan({FaultyDisk::Fault::kError, 1, 1});
    EXPECT_TRUE(absl::IsUnavailable((*upload)->commit()));
    ASSERT_TRUE(disk.struck());
  }
  EXPECT_EQ(*(*store)->committedBytes(digest), 0) << "send it again";
  ASSERT_OK((*store)->put(bytes).status());
  store->reset();
  disk.restart(FaultyDisk::Survival::kNothing, 0);
  store = openOn(*files);
  ASSERT_OK(store.status());
  EXPECT_OK((*store)->get(digest.sha256(), 0, 0, [](std::string_view) { return absl::OkStatus(); }));
}

TEST(BlobStoreOnAFaultyDisk, AFolderThatIsKnownToBeOnTheDiskIsNotSyncedAgain) {
  // Blobs with a common outer folder.
  std::map<char, std::string> first;
  std::pair<std::string, std::string> both;
  for (int i = 0; both.first.empty(); ++i) {
    const std::string bytes = std::to_string(i), sha256 = sha256Hex(bytes);
    if (sha256[0] != '0') continue;
    const auto [known, fresh] = first.emplace(sha256[1], bytes);
    if (!fresh && sha256Hex(known->second).substr(0, 4) != sha256.substr(0, 4)) both = {known->second, bytes};
  }
  FaultyDisk disk;
  const auto files = filesOn(disk);
  auto store = openOn(*files);
  ASSERT_OK(store.status());
  const auto operationsOf = [&](const std::string& bytes) {
    disk.plan({});
    EXPECT_OK((*store)->put(bytes).status());
    return disk.operations();
  };
  const int64_t alone = operationsOf(both.first), beside = operationsOf(both.second);
  EXPECT_EQ(alone - beside, 2) << "the folder around both is made once, and the root is synced once for it";
  store->reset();
  disk.cutPower();
  disk.restart(FaultyDisk::Survival::kNothing, 0);
  store = openOn(*files);
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->contains(sha256Hex(both.first)));
  EXPECT_TRUE((*store)->contains(sha256Hex(both.second)));
}

}  // namespace
}  // namespace tessera::storage
