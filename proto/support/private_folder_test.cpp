#include "proto/support/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OwnFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string place = ::testing::TempDir() + "/own-folder-XXXXXX";
    folder_ = mkdtemp(place.data());
    chmod(folder_.c_str(), 0755);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name) const { std::ofstream(folder_ / name) << "x"; }
  int rights() const {
    struct stat facts{};
    stat(folder_.c_str(), &facts);
    return facts.st_mode & 0777;
  }

  fs::path folder_;
};

TEST_F(OwnFolder, IsMadeWithThoseAboveIt) {
  const std::string deep = (folder_ / "a" / "b").string();
  ASSERT_TRUE(createPrivateFolder(deep, {}).ok());
  EXPECT_EQ(fs::status(deep).permissions(), fs::perms::owner_all);
  EXPECT_EQ(rights(), 0755) << "of the one above";
}

TEST_F(OwnFolder, OneThatIsEmptyIsTaken) {
  ASSERT_TRUE(createPrivateFolder(folder_.string(), {"tessera.db"}).ok());
  EXPECT_EQ(rights(), 0700);
}

TEST_F(OwnFolder, SoIsAnOwnDiskAndWhatWasUsedBefore) {
  fs::create_directory(folder_ / "lost+found");
  write("tesserad.log");
  EXPECT_TRUE(createPrivateFolder(folder_.string(), {"tessera.db"}).ok());
  write("whatever");
  write("tessera.db");
  EXPECT_TRUE(createPrivateFolder(folder_.string(), {"lock", "tessera.db"}).ok());
}

TEST_F(OwnFolder, OthersStaysAsItIs) {
  write("letters");
  const absl::Status status = createPrivateFolder(folder_.string(), {"tessera.db"});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("contains other files (letters)"));
  EXPECT_EQ(rights(), 0755);
}

TEST_F(OwnFolder, SeveralThatBeginAtOnceAreNoneOfThemRefused) {
  for (int round = 0; round < 200; ++round) {
    const fs::path folder = folder_ / std::to_string(round);
    std::vector<absl::Status> outcomes(4);
    std::vector<std::thread> programs;
    for (absl::Status& outcome : outcomes) {
      programs.emplace_back([&folder, &outcome] {
        outcome = createPrivateFolder(folder.string(), {"lock"});
        for (const char* name : {"lock", "key.new", "a", "b"}) std::ofstream(folder / name) << "x";
      });
    }
    for (std::thread& program : programs) program.join();
    for (const absl::Status& outcome : outcomes) ASSERT_TRUE(outcome.ok()) << outcome << ", round " << round;
  }
}

TEST_F(OwnFolder, AFileIsNone) {
  write("file");
  EXPECT_FALSE(createPrivateFolder((folder_ / "file").string(), {}).ok());
}

}  // namespace
}  // namespace tessera
