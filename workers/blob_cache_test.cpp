#include "workers/blob_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "proto/messages/blob_path.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "workers/file_digest.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

namespace fs = std::filesystem;

v1::Digest digestOf(const std::string& bytes) {
  Sha256 hash;
  hash.update(bytes);
  v1::Digest digest;
  digest.set_sha256(hash.finish());
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

std::string contentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

class BlobCacheTest : public testing::Test {
 protected:
  void open(int64_t capacity, SharedBlobs* shared = nullptr) {
    cache_ = *BlobCache::open(folder_.path() + "/cache", capacity, shared);
  }

  // Provides a blob from a source with these bytes.
  absl::Status provide(const v1::Digest& digest, const std::string& bytes) {
    last_ = folder_.path() + "/link" + std::to_string(links_++);
    return cache_->provide(digest, last_, [&](const v1::Digest&, const ByteSink& sink) {
      ++fetches_;
      // In chunks, as in a transfer.
      for (size_t i = 0; i < bytes.size(); i += 3) {
        TESSERA_RETURN_IF_ERROR(sink(std::string_view(bytes).substr(i, 3)));
      }
      return absl::OkStatus();
    });
  }

  TemporaryFolder folder_;
  std::unique_ptr<BlobCache> cache_;
  std::string last_;
  int links_ = 0;
  std::atomic<int> fetches_ = 0;
};

TEST_F(BlobCacheTest, FetchesOnceAndLinksAfterwards) {
  open(100);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(provide(digestOf("content"), "content").ok());
    EXPECT_EQ(contentOf(last_), "content");
  }
  EXPECT_EQ(fetches_, 1);
  EXPECT_EQ(cache_->stats().hits, 2);
  EXPECT_EQ(cache_->stats().bytes, 7);
}

TEST_F(BlobCacheTest, WhatTheServersFolderHasIsLinked) {
  namespace fs = std::filesystem;
  const std::string server = folder_.path() + "/blobs";
  const v1::Digest sound = digestOf("content"), damaged = digestOf("damaged"), absent = digestOf("absent");
  for (const auto& [digest, bytes] : {std::pair{sound, "content"}, std::pair{damaged, "damagEd"}}) {
    fs::create_directories(fs::path(server + "/" + blobRelativePath(digest.sha256())).parent_path());
    std::ofstream(server + "/" + blobRelativePath(digest.sha256())) << bytes;
  }
  fs::create_directories(server + "/tmp");
  SharedBlobs shared(server);
  open(100, &shared);
  ASSERT_TRUE(provide(sound, "").ok());
  EXPECT_EQ(fetches_, 0);
  EXPECT_TRUE(fs::equivalent(last_, server + "/" + blobRelativePath(sound.sha256())));
  EXPECT_EQ(fs::status(last_).permissions() & fs::perms::owner_write, fs::perms::none);
  // Damaged blobs, and those that are not plain files, are downloaded.
  ASSERT_TRUE(provide(damaged, "damaged").ok());
  EXPECT_EQ(contentOf(last_), "damaged");
  ASSERT_TRUE(provide(absent, "absent").ok());
  EXPECT_EQ(fetches_, 2);

  std::ofstream(folder_.path() + "/output") << "output";
  const auto placed = shared.place(digestOf("output"), folder_.path() + "/output");
  ASSERT_TRUE(placed.has_value());
  EXPECT_TRUE(fs::equivalent(server + "/tmp/" + *placed, folder_.path() + "/output"));
  shared.forget(*placed);
  EXPECT_FALSE(fs::exists(server + "/tmp/" + *placed));
  EXPECT_EQ(contentOf(folder_.path() + "/output"), "output");

  // If the server already has an output, its file is linked.
  const v1::Digest again = digestOf("again");
  for (const std::string& path : {server + "/" + blobRelativePath(again.sha256()), folder_.path() + "/again"}) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "again";
  }
  cache_->add(again, folder_.path() + "/again");
  ASSERT_TRUE(provide(again, "").ok());
  EXPECT_TRUE(fs::equivalent(last_, server + "/" + blobRelativePath(again.sha256())));
  EXPECT_EQ(fetches_, 2);
}

TEST_F(BlobCacheTest, WhatTheServerHasNoLongerIsVerifiedAgain) {
  namespace fs = std::filesystem;
  const std::string server = folder_.path() + "/blobs";
  const v1::Digest rotten = digestOf("content"), sound = digestOf("collected");
  const auto at = [&](const v1::Digest& digest) { return server + "/" + blobRelativePath(digest.sha256()); };
  for (const auto& [digest, bytes] : {std::pair{rotten, "content"}, std::pair{sound, "collected"}}) {
    fs::create_directories(fs::path(at(digest)).parent_path());
    std::ofstream(at(digest)) << bytes;
  }
  fs::create_directories(server + "/tmp");
  SharedBlobs shared(server);
  open(100, &shared);
  ASSERT_TRUE(provide(rotten, "").ok());
  ASSERT_TRUE(provide(sound, "").ok());
  ASSERT_EQ(fetches_, 0);

  // The disk loses a byte; the server detects this and moves the file aside. It has collected another blob.
  fs::permissions(at(rotten), fs::perms::owner_read | fs::perms::owner_write);
  std::ofstream(at(rotten)) << "cOntent";
  fs::rename(at(rotten), server + "/corrupt");
  fs::remove(at(sound));
  ASSERT_TRUE(provide(rotten, "content").ok());
  EXPECT_EQ(contentOf(last_), "content");
  EXPECT_EQ(fetches_, 1);
  ASSERT_TRUE(provide(sound, "").ok());
  EXPECT_EQ(contentOf(last_), "collected");
  EXPECT_EQ(fetches_, 1) << "sound as it is";
}

TEST_F(BlobCacheTest, WhereNothingCanBeLinkedBlobsAreFetched) {
  SharedBlobs shared("/proc/self");  // files can be read there, but not linked
  EXPECT_FALSE(shared.place(digestOf("content"), folder_.path() + "/absent").has_value());
  std::ofstream(folder_.path() + "/output") << "content";
  EXPECT_FALSE(shared.place(digestOf("content"), folder_.path() + "/output").has_value());
  open(100, &shared);
  ASSERT_TRUE(provide(digestOf("content"), "content").ok());
  EXPECT_EQ(fetches_, 1);
}

TEST_F(BlobCacheTest, WrongContentNeverEnters) {
  open(100);
  for (const char* wrong : {"contenu", "conten", "contents", ""}) {
    const absl::Status status = provide(digestOf("content"), wrong);
    EXPECT_EQ(failureOf(status).reason(), v1::Failure::WORKER_FAULT) << wrong << ": " << status;
    EXPECT_FALSE(fs::exists(last_));
  }
  EXPECT_EQ(cache_->stats().blobs, 0);
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/cache"));
}

TEST_F(BlobCacheTest, LeastRecentlyUsedGoesFirst) {
  open(10);
  ASSERT_TRUE(provide(digestOf("aaaa"), "aaaa").ok());
  ASSERT_TRUE(provide(digestOf("bbbb"), "bbbb").ok());
  ASSERT_TRUE(provide(digestOf("aaaa"), "aaaa").ok());
  ASSERT_TRUE(provide(digestOf("cccc"), "cccc").ok());  // evicts b
  EXPECT_EQ(cache_->stats().evictions, 1);
  EXPECT_LE(cache_->stats().bytes, 10);
  fetches_ = 0;
  ASSERT_TRUE(provide(digestOf("aaaa"), "aaaa").ok());
  EXPECT_EQ(fetches_, 0);
  ASSERT_TRUE(provide(digestOf("bbbb"), "bbbb").ok());
  EXPECT_EQ(fetches_, 1);
}

TEST_F(BlobCacheTest, EvictionLeavesTheFilesOfRunningTasks) {
  open(4);
  ASSERT_TRUE(provide(digestOf("aaaa"), "aaaa").ok());
  const std::string held = last_;
  ASSERT_TRUE(provide(digestOf("bbbb"), "bbbb").ok());
  EXPECT_EQ(contentOf(held), "aaaa");
}

TEST_F(BlobCacheTest, BlobLargerThanTheCacheStillArrives) {
  open(2);
  ASSERT_TRUE(provide(digestOf("content"), "content").ok());
  EXPECT_EQ(contentOf(last_), "content");
  EXPECT_EQ(cache_->stats().bytes, 0);
}

TEST_F(BlobCacheTest, SurvivesARestartAndVerifiesAgain) {
  open(100);
  ASSERT_TRUE(provide(digestOf("whole"), "whole").ok());
  ASSERT_TRUE(provide(digestOf("damaged"), "damaged").ok());
  const std::string cache = folder_.path() + "/cache/";
  // State after a power cut: right name and size, other bytes.
  fs::remove(cache + digestOf("damaged").sha256());
  std::ofstream(cache + digestOf("damaged").sha256()) << "DAMAGED";
  std::ofstream(cache + digestOf("whole").sha256() + ".partial") << "rest of a download";
  open(100);
  fetches_ = 0;
  ASSERT_TRUE(provide(digestOf("whole"), "whole").ok());
  EXPECT_EQ(fetches_, 0);
  ASSERT_TRUE(provide(digestOf("damaged"), "damaged").ok());
  EXPECT_EQ(fetches_, 1);
  EXPECT_EQ(contentOf(last_), "damaged");
  EXPECT_EQ(cache_->stats().bytes, 12);
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), fs::directory_iterator()), 2);
}

TEST_F(BlobCacheTest, RestartWithASmallerBoundEvicts) {
  open(100);
  ASSERT_TRUE(provide(digestOf("aaaa"), "aaaa").ok());
  ASSERT_TRUE(provide(digestOf("bbbb"), "bbbb").ok());
  open(5);
  EXPECT_EQ(cache_->stats().blobs, 1);
}

TEST_F(BlobCacheTest, OutputIsTakenInWithoutACopy) {
  open(100);
  const std::string output = folder_.path() + "/output";
  std::ofstream(output) << "made here";
  cache_->add(digestOf("made here"), output);
  ASSERT_TRUE(provide(digestOf("made here"), "").ok());
  EXPECT_EQ(fetches_, 0);
  EXPECT_TRUE(fs::equivalent(output, last_));
}

TEST_F(BlobCacheTest, NameThatIsNoDigestIsRefused) {
  open(100);
  v1::Digest digest;
  digest.set_sha256("../../etc/passwd");
  EXPECT_TRUE(absl::IsInvalidArgument(provide(digest, "")));
}

TEST_F(BlobCacheTest, TwoTasksThatWantOneBlobFetchItOnce) {
  open(100);
  std::vector<std::thread> tasks;
  std::atomic<int> provided = 0;
  for (int i = 0; i < 8; ++i) {
    tasks.emplace_back([&, i] {
      const std::string link = folder_.path() + "/parallel" + std::to_string(i);
      const absl::Status status =
          cache_->provide(digestOf("shared"), link, [&](const v1::Digest&, const ByteSink& sink) {
            ++fetches_;
            return sink("shared");
          });
      if (status.ok() && contentOf(link) == "shared") ++provided;
    });
  }
  for (std::thread& task : tasks) task.join();
  EXPECT_EQ(provided, 8);
  EXPECT_EQ(fetches_, 1);
}

}  // namespace
}  // namespace tessera::worker
