#include "clients/cpp/local_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

class OutputPath : public testing::Test {
 public:
  OutputPath() : folder_(testing::TempDir() + "output path") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/folder");
    std::ofstream(folder_ + "/file") << "there";
    mkfifo((folder_ + "/pipe").c_str(), 0600);
    fs::create_symlink("/dev/null", folder_ + "/link to null");
  }
  ~OutputPath() override { fs::remove_all(folder_); }
  absl::Status check(const std::string& name, bool regular) { return checkOutputPath(folder_ + "/" + name, regular); }

  std::string folder_;
};

TEST_F(OutputPath, SmallFilesAreReadWholeAndNothingElse) {
  EXPECT_EQ(readSmallFile(folder_ + "/file", 5), "there");
  EXPECT_EQ(readSmallFile(folder_ + "/file", 4), std::nullopt) << "it is larger";
  for (const char* none : {"absent", "folder", "pipe", "link to null"})
    EXPECT_EQ(readSmallFile(folder_ + "/" + none, 100), std::nullopt) << none;
}

TEST_F(OutputPath, IsAFileOrAPlaceForOne) {
  for (const bool regular : {false, true}) {
    for (const char* good : {"file", "new", "folder/new", "./new"})
      EXPECT_TRUE(check(good, regular).ok()) << good << ": " << check(good, regular);
    EXPECT_TRUE(checkOutputPath("local_file_test.new", regular).ok()) << "in this folder";
    for (const char* bad : {"folder", "folder/", ".", "file/new"})
      EXPECT_TRUE(absl::IsInvalidArgument(check(bad, regular))) << bad << ": " << check(bad, regular);
    EXPECT_TRUE(absl::IsNotFound(check("absent/new", regular)));
  }
}

TEST_F(OutputPath, ThatIsNoFileIsNotExchanged) {
  for (const char* special : {"pipe", "link to null"}) {
    EXPECT_TRUE(check(special, false).ok()) << special;
    EXPECT_TRUE(absl::IsInvalidArgument(check(special, true))) << special;
  }
}

TEST(FileError, IsNoWordOfTheService) {
  for (const int error : {EACCES, EPERM, EROFS, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG})
    EXPECT_TRUE(absl::IsInvalidArgument(fileError(error, "cannot write x"))) << error;
  EXPECT_NE(fileError(ESPIPE, "cannot read /dev/stdin").message().find("pipe"), std::string::npos);
  EXPECT_TRUE(absl::IsNotFound(fileError(ENOENT, "cannot write x")));
  EXPECT_EQ(fileError(EACCES, "cannot write x").message(), "cannot write x: Permission denied");
}

}  // namespace
}  // namespace tessera::client
