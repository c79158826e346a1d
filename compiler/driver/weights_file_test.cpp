#include "compiler/driver/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

class WeightsFileTest : public testing::Test {
 public:
  WeightsFileTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~WeightsFileTest() override { std::filesystem::remove_all(folder_); }

  /// Two weights of a page each, with a gap of a megabyte between them and another one at the end.
  absl::Status write() const {
    static const std::string bytes(4096, 'w');
    std::vector<PlannedGraph::PlacedWeight> weights(2);
    weights[1].offset = kSize / 2;
    for (auto& [offset, weight] : weights) weight.bytes = bytes;
    return writeWeights(std::move(weights), kSize, path());
  }
  std::string path() const { return folder_ + "/weights"; }

  static constexpr int64_t kSize = int64_t{2} << 20;
  std::string folder_ = testing::TempDir() + "weightsXXXXXX";
};

// Readers that map the file also read the gaps.
TEST_F(WeightsFileTest, GapsHaveRoomOfTheirOwn) {
  ASSERT_TRUE(write().ok());
  struct stat file{};
  ASSERT_EQ(stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_size, kSize);
  constexpr int64_t kBlock = 512;  // unit of st_blocks, for any file system
  EXPECT_GE(file.st_blocks * kBlock, kSize);
}

TEST_F(WeightsFileTest, ADiskWithRoomForTheWeightsAloneIsFull) {
  enum End { kFull, kCannotMount, kOther };
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder_.c_str(), "tmpfs", 0, "nr_blocks=16") != 0) {
      _exit(kCannotMount);
    }
    const absl::Status status = write();
    const bool full = failureOf(status).reason() == v1::Failure::WORKER_FAULT &&
                      status.message() == "cannot write " + path() + ": No space left on device";
    if (!full) fprintf(stderr, "%s\n", status.ToString().c_str());
    _exit(full ? kFull : kOther);
  }
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  ASSERT_TRUE(WIFEXITED(end)) << end;
  if (WEXITSTATUS(end) == kCannotMount) GTEST_SKIP() << "this user may not mount in a namespace of its own";
  EXPECT_EQ(WEXITSTATUS(end), kFull);
}

}  // namespace
}  // namespace tessera::compiler
