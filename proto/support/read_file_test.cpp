#include "proto/support/read_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

TEST(ReadFile, IsAllOfAFileOrAnErrorThatNamesIt) {
  const std::string path = testing::TempDir() + "read file";
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
    const std::string content(size, 'x');
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(readFile(path).value(), content);
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(readFile(path).status()));
  std::filesystem::create_directory(path);
  const absl::Status folder = readFile(path).status();
  EXPECT_FALSE(folder.ok());
  EXPECT_NE(folder.message().find(path), std::string::npos) << folder;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera
