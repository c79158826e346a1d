#include "compiler/artifact/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "compiler/artifact/ir_kernels.h"
#include "proto/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

class LinkTest : public testing::Test {
 public:
  LinkTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~LinkTest() override { std::filesystem::remove_all(folder_); }

  absl::Status link() const {
    return linkShared({compileIr("define void @f() { ret void }", "nothing", {}).object()}, "f", folder_);
  }

  std::string folder_ = testing::TempDir() + "linkXXXXXX";
};

bool full(const absl::Status& status) {
  return failureOf(status).reason() == v1::Failure::WORKER_FAULT &&
         std::string(status.message()).ends_with(": No space left on device");
}

TEST_F(LinkTest, AFullDiskIsTheMachinesFault) {
  for (const char* name : {"exports.map", "0.o"}) {
    std::filesystem::create_symlink("/dev/full", folder_ + "/" + name);
    const absl::Status status = link();
    EXPECT_TRUE(full(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(std::string("/") + name));
    std::filesystem::remove(folder_ + "/" + name);
  }
  EXPECT_TRUE(link().ok());
}

TEST_F(LinkTest, ADiskThatIsFullOnlyForTheLibraryIsToo) {
  constexpr int kCannotMount = 1, kFull = 2, kOther = 3;
  const pid_t child = fork();
  if (child == 0) {
    // Room for a page each of what is linked.
    if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder_.c_str(), "tmpfs", 0, "nr_blocks=2") != 0) {
      _exit(kCannotMount);
    }
    const absl::Status status = link();
    if (!full(status)) fprintf(stderr, "%s\n", status.ToString().c_str());
    _exit(full(status) ? kFull : kOther);
  }
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  ASSERT_TRUE(WIFEXITED(end)) << end;
  if (WEXITSTATUS(end) == kCannotMount) GTEST_SKIP() << "this user may not mount in a namespace of its own";
  EXPECT_EQ(WEXITSTATUS(end), kFull);
}

}  // namespace
}  // namespace tessera::compiler
