#include "workers/huge_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

constexpr size_t kBlock = 2 << 20;
constexpr size_t kBlocks = 3;
constexpr size_t kPage = 4096;

bool kernelGivesThem() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(setting, text);
  return text.find("[always]") != std::string::npos || text.find("[madvise]") != std::string::npos;
}

/// A number derived from the offset in the file.
uint32_t numberAt(size_t place) { return static_cast<uint32_t>(place * 2654435761U) ^ 0x5bd1e995U; }

class HugePagesTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = temporary_.path() + "/library";
    std::ofstream file(path_, std::ios::binary);
    for (size_t place = 0; place < kBlocks * kBlock; place += sizeof(uint32_t)) {
      const uint32_t number = numberAt(place);
      file.write(reinterpret_cast<const char*>(&number), sizeof(number));
    }
#ifdef __x86_64__
    file.seekp(kBlock);
    file.write("\xb8\x2a\x00\x00\x00\xc3", 6);  // mov eax, 42; ret
#endif
  }

  void TearDown() override {
    if (blocks_ != nullptr) munmap(blocks_, kBlocks * kBlock);
  }

  /// Maps the file at a block boundary and reads a page of the middle block.
  void map(int protection, int flags) {
    void* const room = mmap(nullptr, (kBlocks + 1) * kBlock, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(room, MAP_FAILED);
    const auto start = reinterpret_cast<uintptr_t>(room);
    char* const at = static_cast<char*>(room) + (kBlock - start % kBlock) % kBlock;
    const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    blocks_ = static_cast<char*>(mmap(at, kBlocks * kBlock, protection, flags | MAP_FIXED, file, 0));
    close(file);
    ASSERT_NE(static_cast<void*>(blocks_), MAP_FAILED);
    madvise(blocks_, kBlocks * kBlock, MADV_RANDOM);  // one page per access
    ASSERT_EQ(numberIn(kBlock + 8 * kPage), numberAt(kBlock + 8 * kPage));
  }

  uint32_t numberIn(size_t place) const {
    uint32_t number;
    memcpy(&number, const_cast<const char*>(blocks_) + place, sizeof(number));
    return number;
  }

  /// Whether the mapping that starts with this block is anonymous, that is, was moved.
  bool isMoved(size_t block) const {
    std::ostringstream start;
    start << std::hex << reinterpret_cast<uintptr_t>(blocks_ + block * kBlock) << '-';
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.starts_with(start.str())) return line.find(path_) == std::string::npos;
    }
    return false;
  }

  TemporaryFolder temporary_;
  std::string path_;
  char* blocks_ = nullptr;
};

TEST_F(HugePagesTest, BlocksThatWereTouchedAreMovedAndReadTheSame) {
  if (!kernelGivesThem()) GTEST_SKIP() << "this kernel gives no huge pages";
  map(PROT_READ, MAP_PRIVATE);
  EXPECT_GE(moveToHugePages(), int64_t{kBlock});
  EXPECT_FALSE(isMoved(0));
  EXPECT_TRUE(isMoved(1));
  EXPECT_FALSE(isMoved(2));
  for (size_t place = 0; place < kBlocks * kBlock; place += sizeof(uint32_t)) {
    if (place < kBlock || place >= kBlock + 8) ASSERT_EQ(numberIn(place), numberAt(place)) << place;
  }
}

// Sanitizers also touch memory of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !__has_feature(address_sanitizer) && \
    !__has_feature(thread_sanitizer)
TEST_F(HugePagesTest, ForksHaveABlockWithoutAFaultForEachPage) {
  if (!kernelGivesThem()) GTEST_SKIP() << "this kernel gives no huge pages";
  map(PROT_READ, MAP_PRIVATE);
  moveToHugePages();
  ASSERT_TRUE(isMoved(1));
  const pid_t child = fork();
  if (child == 0) {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    uint32_t sum = 0;
    for (size_t page = 0; page < kBlock / kPage; ++page) sum += numberIn(kBlock + page * kPage);
    getrusage(RUSAGE_SELF, &after);
    _exit(sum != 0 && after.ru_minflt - before.ru_minflt < 20 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

#ifdef __x86_64__
TEST_F(HugePagesTest, CodeStaysCodeAndCannotBeWritten) {
  if (!kernelGivesThem()) GTEST_SKIP() << "this kernel gives no huge pages";
  map(PROT_READ | PROT_EXEC, MAP_PRIVATE);
  moveToHugePages();
  ASSERT_TRUE(isMoved(1));
  EXPECT_EQ(reinterpret_cast<int (*)()>(blocks_ + kBlock)(), 42);
  EXPECT_DEATH(blocks_[kBlock] = 0, "");
}
#endif

TEST_F(HugePagesTest, WhatIsWrittenOrSharedStays) {
  map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  moveToHugePages();
  EXPECT_FALSE(isMoved(1));
  munmap(blocks_, kBlocks * kBlock);
  map(PROT_READ, MAP_SHARED);
  moveToHugePages();
  EXPECT_FALSE(isMoved(1));
}

}  // namespace
}  // namespace tessera::worker
