#include "workers/shared_step_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "proto/support/sha256.h"

namespace tessera::worker {
namespace {

std::string key(int number) { return sha256Hex("key " + std::to_string(number)); }
std::string result(int number, size_t bytes = 100) { return std::string(bytes, static_cast<char>('a' + number % 26)); }

std::unique_ptr<SharedStepCache> make(size_t bytes) {
  auto made = SharedStepCache::create(bytes);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

std::optional<std::string> found(const SharedStepCache& steps, int number) {
  const auto reader = SharedStepCacheReader::open(steps.descriptor());
  EXPECT_NE(reader, nullptr);
  auto entry = reader->find(key(number));
  return entry ? std::optional(entry->result) : std::nullopt;
}

TEST(SharedStepCache, WhatWasAddedIsFoundByItsKeyAlone) {
  const auto steps = make(1 << 20);
  const auto before = SharedStepCacheReader::open(steps->descriptor());
  for (int i = 0; i < 20; ++i) steps->add(key(i), result(i));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(found(*steps, i), result(i));
  EXPECT_EQ(found(*steps, 20), std::nullopt);
  EXPECT_TRUE(before->find(key(3))) << "who maps it sees what comes later";
  EXPECT_FALSE(before->find("no digest"));
}

TEST(SharedStepCache, TheFirstResultOfAKeyStays) {
  const auto steps = make(1 << 20);
  steps->add(key(1), "one");
  steps->add(key(1), "another");
  EXPECT_EQ(found(*steps, 1), "one");
}

TEST(SharedStepCache, ItStaysWithinItsRoomAndKeepsWhatIsUsed) {
  const auto steps = make(256 << 10);
  struct stat file{};
  ASSERT_EQ(fstat(steps->descriptor(), &file), 0);
  const auto reader = SharedStepCacheReader::open(steps->descriptor());
  steps->add(key(0), result(0));
  for (int i = 1; i < 2'000; ++i) {
    steps->add(key(i), result(i, 2'000));
    const auto kept = reader->find(key(0));
    ASSERT_TRUE(kept) << i;
    if (kept->older) steps->add(key(0), kept->result);  // as a task does
    ASSERT_EQ(found(*steps, i), result(i, 2'000));
  }
  EXPECT_EQ(found(*steps, 1), std::nullopt);
  struct stat now{};
  ASSERT_EQ(fstat(steps->descriptor(), &now), 0);
  EXPECT_EQ(now.st_size, file.st_size);
}

TEST(SharedStepCache, WhatIsTooLargeIsLeftOut) {
  const auto steps = make(256 << 10);
  steps->add(key(1), std::string(64 << 10, 'x'));
  EXPECT_EQ(found(*steps, 1), std::nullopt);
}

// A task may return an empty result, which fits in any cache.
TEST(SharedStepCache, ACacheWithoutSlotsKeepsNothing) {
  const auto steps = make(100);
  steps->add(key(1), "");
  EXPECT_EQ(SharedStepCacheReader::open(steps->descriptor()), nullptr);
}

// A half that is cleared while it is read; damaged memory; a writer with a bug.
TEST(SharedStepCache, WhatWasChangedOrLiesUnderAnotherKeyIsNotFound) {
  const auto sound = make(256 << 10);
  sound->add(key(1), result(1));
  sound->add(key(2), result(2));
  struct stat file{};
  ASSERT_EQ(fstat(sound->descriptor(), &file), 0);
  const auto bytes = static_cast<size_t>(file.st_size);
  std::string copy(bytes, '\0');
  ASSERT_EQ(pread(sound->descriptor(), copy.data(), bytes, 0), static_cast<ssize_t>(bytes));
  const auto readerOf = [&](const std::string& content) {
    const FileDescriptor other(memfd_create("changed", MFD_CLOEXEC));
    EXPECT_EQ(write(other.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    return SharedStepCacheReader::open(other.get());
  };
  EXPECT_TRUE(readerOf(copy)->find(key(1)));
  std::string changed = copy;
  changed[changed.find(result(1)) + 50] ^= 1;
  EXPECT_FALSE(readerOf(changed)->find(key(1)));
  EXPECT_TRUE(readerOf(changed)->find(key(2)));
  std::string renamed = copy;
  renamed.replace(renamed.find(key(1)), 64, key(3));
  EXPECT_FALSE(readerOf(renamed)->find(key(1)));
  EXPECT_FALSE(readerOf(renamed)->find(key(3)));
  copy[0] ^= 1;
  EXPECT_EQ(readerOf(copy), nullptr);
  EXPECT_EQ(readerOf("short"), nullptr);
  EXPECT_EQ(SharedStepCacheReader::open(-1), nullptr);
}

TEST(SharedStepCache, NobodyElseCanWriteIt) {
  const auto steps = make(256 << 10);
  const int file = steps->descriptor();
  EXPECT_EQ(write(file, "x", 1), -1);
  EXPECT_EQ(ftruncate(file, 0), -1);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
  void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(mprotect(mapped, 4096, PROT_READ | PROT_WRITE), -1);
  munmap(mapped, 4096);
}

TEST(SharedStepCache, ReadersAndTheWriterDoNotWaitForEachOther) {
  const auto steps = make(128 << 10);
  std::atomic<bool> done = false;
  std::vector<std::jthread> readers;
  for (int thread = 0; thread < 2; ++thread) {
    readers.emplace_back([&] {
      const auto reader = SharedStepCacheReader::open(steps->descriptor());
      for (int i = 0; !done; i = (i + 7) % 500) {
        const auto entry = reader->find(key(i));
        if (entry) EXPECT_EQ(entry->result, result(i, 900));
      }
    });
  }
  for (int i = 0; i < 5'000; ++i) steps->add(key(i % 500), result(i % 500, 900));
  done = true;
}

TEST(SharedStepCache, WhatATaskHandsInIsAddedAsFarAsItCanBeRead) {
  const auto steps = make(256 << 10);
  const std::string both = encodeStep(key(1), result(1)) + encodeStep(key(2), result(2));
  addEncoded(*steps, both.substr(0, both.size() - 1));
  EXPECT_EQ(found(*steps, 1), result(1));
  EXPECT_EQ(found(*steps, 2), std::nullopt);
  addEncoded(*steps, both);
  EXPECT_EQ(found(*steps, 2), result(2));
  addEncoded(*steps, std::string(300, 'z'));
  addEncoded(*steps, "");
}

TEST(SharedStepCache, EachProjectHasItsOwnAndTheLastOnesAreKept) {
  ProjectStepCaches projects(8 << 20);
  projects.of("vision")->add(key(1), "of vision");
  EXPECT_EQ(found(*projects.of("speech"), 1), std::nullopt);
  EXPECT_EQ(found(*projects.of("vision"), 1), "of vision");
  for (int i = 0; i < 20; ++i) {
    projects.of("other " + std::to_string(i));
    EXPECT_EQ(found(*projects.of("vision"), 1), "of vision");
  }
  EXPECT_EQ(projects.of(""), nullptr);
  EXPECT_EQ(ProjectStepCaches(0).of("vision"), nullptr);
}

}  // namespace
}  // namespace tessera::worker
