// Reuse of attempt folders.
#include "workers/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "workers/self_check.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

class ScratchTest : public testing::Test {
 protected:
  AttemptFolder attempt() { return *scratch_->newAttempt(); }
  std::set<std::string> below(const std::string& folder) const {
    std::set<std::string> names;
    for (const auto& each : fs::recursive_directory_iterator(folder)) names.insert(each.path().filename());
    return names;
  }

  TemporaryFolder temporary_;
  std::unique_ptr<Scratch> scratch_ = *Scratch::open(temporary_.path());
  const std::set<std::string> parts_ = {"in", "out", "tmp"};
};

TEST_F(ScratchTest, TheNextAttemptHasTheFolderWithoutAnythingOfTheLast) {
  std::string path;
  {
    const AttemptFolder folder = attempt();
    path = folder.path();
    for (const char* file : {"/task.pb", "/result.pb", "/in/input", "/out/object", "/tmp/left"}) {
      std::ofstream(path + file) << "somebody's";
    }
    fs::create_directories(path + "/out/deep/deeper");
    fs::create_symlink("/", path + "/tmp/link");
  }
  const AttemptFolder next = attempt();
  EXPECT_EQ(next.path(), path);
  EXPECT_EQ(below(path), parts_);
}

TEST_F(ScratchTest, AttemptsAtTheSameTimeHaveFoldersOfTheirOwn) {
  const AttemptFolder one = attempt(), other = attempt();
  EXPECT_NE(one.path(), other.path());
}

TEST_F(ScratchTest, AFolderThatATaskMadeAnotherIsNotUsedAgain) {
  const std::string elsewhere = temporary_.path() + "/elsewhere";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere + "/file") << "of somebody else";
  for (const bool link : {true, false}) {
    std::string path;
    {
      const AttemptFolder folder = attempt();
      path = folder.path();
      if (link) {
        fs::remove(path + "/out");
        fs::create_directory_symlink(elsewhere, path + "/out");
      } else {
        ASSERT_EQ(chmod((path + "/tmp").c_str(), 0755), 0);
      }
    }
    EXPECT_FALSE(fs::exists(path)) << "link: " << link;
    EXPECT_NE(attempt().path(), path) << "link: " << link;
  }
  EXPECT_TRUE(fs::exists(elsewhere + "/file"));
}

TEST_F(ScratchTest, AFolderThatIsGoneIsMadeAnew) {
  std::string path;
  {
    path = attempt().path();
  }
  fs::remove_all(path);
  const AttemptFolder next = attempt();
  EXPECT_NE(next.path(), path);
  EXPECT_EQ(below(next.path()), parts_);
}

TEST_F(ScratchTest, ACheckTriesAFolderNowAndThen) {
  SelfCheck check(scratch_->attemptsFolder(), "/bin/sh", 0);
  EXPECT_THAT(check.trouble(), IsEmpty());
  const auto tried = fs::last_write_time(scratch_->attemptsFolder());
  EXPECT_THAT(check.trouble(), IsEmpty());
  EXPECT_EQ(fs::last_write_time(scratch_->attemptsFolder()), tried) << "nothing is made for each question";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_THAT(check.trouble(), IsEmpty());
  EXPECT_NE(fs::last_write_time(scratch_->attemptsFolder()), tried);
}

}  // namespace
}  // namespace tessera::worker
