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
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

class LinkTest : public testing::Test {
 public:
  LinkTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~LinkTest() override { std::filesystem::remove_all(folder_); }

  absl::Status link() const { return linkObject(compileIr("define void @f() { ret void }", "nothing", {}).object()); }

  absl::Status linkObject(const std::string& object) const {
    const absl::StatusOr<std::string> code = linkShared({object}, "f", folder_);
    if (code.ok())
      EXPECT_TRUE(
          code->starts_with("\x7f"
                            "ELF"));
    return code.status();
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

// lld maps the file that it writes, and would die of SIGBUS.
TEST_F(LinkTest, TheLibraryNeedsNoRoomOnTheDisk) {
  const std::string object = compileIr("define void @f() { ret void }", "nothing", {}).object();
  enum End { kAsExpected, kCannotMount, kOther };
  // Pages on the disk: enough for the export script and two objects, or for the script alone.
  for (const auto& [pages, fits] : {std::pair(3, true), {1, false}}) {
    const pid_t child = fork();
    if (child == 0) {
      if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
          mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount("tmpfs", folder_.c_str(), "tmpfs", 0, ("nr_blocks=" + std::to_string(pages)).c_str()) != 0) {
        _exit(kCannotMount);
      }
      const absl::Status status = linkObject(object);
      const bool expected = fits ? status.ok() : full(status);
      if (!expected) fprintf(stderr, "%s\n", status.ToString().c_str());
      _exit(expected ? kAsExpected : kOther);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    ASSERT_TRUE(WIFEXITED(end)) << end;
    if (WEXITSTATUS(end) == kCannotMount) GTEST_SKIP() << "this user may not mount in a namespace of its own";
    EXPECT_EQ(WEXITSTATUS(end), kAsExpected) << pages << " pages";
  }
}

}  // namespace
}  // namespace tessera::compiler
