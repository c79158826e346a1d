#include "compiler/artifact/zip_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "compiler/runtime/artifact_reader.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

std::string pathOf(const std::string& name) {
  std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(test.begin(), test.end(), '/', '_');  // in names of parametrized tests
  return testing::TempDir() + test + name;
}

std::string readAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Three entries, two of them aligned.
std::string writeSample(const std::string& path, bool zip64) {
  const std::string data = pathOf("data");
  std::ofstream(data, std::ios::binary) << std::string(100'000, 'w');
  ZipWriter zip;
  EXPECT_TRUE(zip.open(path, zip64).ok());
  EXPECT_TRUE(zip.add("a.txt", "hello").ok());
  EXPECT_TRUE(zip.add("b.bin", std::string("\0\1\2", 3), 4096).ok());
  size_t seen = 0;
  EXPECT_TRUE(zip.addFile("c.bin", data, 64, [&](std::span<const uint8_t> bytes) { seen += bytes.size(); }).ok());
  EXPECT_EQ(seen, 100'000u);
  EXPECT_TRUE(zip.finish().ok());
  return readAll(path);
}

class ZipWriterTest : public testing::TestWithParam<bool> {};

TEST_P(ZipWriterTest, ReaderFindsEveryEntryAlignedAndWhole) {
  const std::string path = pathOf(".zip");
  writeSample(path, GetParam());
  ArtifactFile file;
  const RuntimeStatus status = ArtifactFile::open(path, &file);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.find("b.bin")->offset % 4096, 0u);
  EXPECT_EQ(file.find("c.bin")->offset % 64, 0u);
  EXPECT_EQ(file.find("d.bin"), nullptr);
  std::string text;
  ASSERT_TRUE(file.readText("a.txt", &text).ok());
  EXPECT_EQ(text, "hello");
  ASSERT_TRUE(file.readText("c.bin", &text).ok());
  EXPECT_EQ(text, std::string(100'000, 'w'));
  EXPECT_EQ(file.readText("d.bin", &text).code(), TESSERA_CORRUPT);
}

TEST_P(ZipWriterTest, EqualContentsGiveEqualBytes) {
  EXPECT_EQ(writeSample(pathOf("1.zip"), GetParam()), writeSample(pathOf("2.zip"), GetParam()));
}

TEST_P(ZipWriterTest, WhatStaysApartIsTheSameZipInThreeFiles) {
  constexpr size_t kPiece = size_t{16} << 20;  // of the checksum
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, kPiece - 1, kPiece, 2 * kPiece + 12'345}) {
    const std::string data = pathOf("data"), whole = pathOf("whole"), before = pathOf("before"),
                      behind = pathOf("behind");
    std::string content(size, '\0');
    for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 2654435761U >> 13);
    std::ofstream(data, std::ios::binary) << content;
    for (const bool apart : {false, true}) {
      ZipWriter zip;
      ASSERT_TRUE(zip.open(apart ? before : whole, GetParam()).ok());
      ASSERT_TRUE(zip.add("a.txt", "hello", 64).ok());
      ASSERT_TRUE((apart ? zip.addExternal("w.bin", data, 4096, behind) : zip.addFile("w.bin", data, 4096, {})).ok());
      ASSERT_TRUE(zip.add("c.bin", "behind it", 32).ok());
      ASSERT_TRUE(zip.finish().ok());
    }
    EXPECT_TRUE(readAll(before) + content + readAll(behind) == readAll(whole)) << size;
  }
}

TEST_P(ZipWriterTest, OrdinaryUnzipAcceptsIt) {
  // NOLINTNEXTLINE(bugprone-command-processor)
  if (std::system("command -v unzip > /dev/null") != 0) GTEST_SKIP() << "unzip is not installed";
  const std::string path = pathOf(".zip");
  writeSample(path, GetParam());
  EXPECT_EQ(std::system(("unzip -tqq " + path).c_str()), 0);  // NOLINT(bugprone-command-processor)
}

TEST_P(ZipWriterTest, DamagedContentsAreNoticed) {
  const std::string path = pathOf(".zip");
  std::string bytes = writeSample(path, GetParam());
  bytes[bytes.find("hello")] = 'j';
  ArtifactFile file;
  ASSERT_TRUE(ArtifactFile::fromMemory({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, &file).ok());
  std::string text;
  const RuntimeStatus status = file.readText("a.txt", &text);
  EXPECT_EQ(status.code(), TESSERA_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("a.txt"));
}

TEST_P(ZipWriterTest, EveryTruncationIsRefused) {
  const std::string bytes = writeSample(pathOf(".zip"), GetParam());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t size = bytes.size() - 400; size < bytes.size(); ++size) {
    ArtifactFile file;
    EXPECT_EQ(ArtifactFile::fromMemory({data, size}, &file).code(), TESSERA_CORRUPT) << size;
  }
  ArtifactFile file;
  EXPECT_EQ(ArtifactFile::fromMemory({data, 0}, &file).code(), TESSERA_CORRUPT);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ZipWriterTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Zip64" : "Zip32"; });

/// Sets a field of the sample's directory to `value`; the reader must refuse it.
struct Lie {
  const char* what;
  size_t from_signature;  // offset within the first central header
  std::string value;
};

TEST(ZipDirectory, LiesInTheDirectoryAreRefused) {
  const std::string honest = writeSample(pathOf(".zip"), false);
  const size_t central = honest.find("PK\x01\x02");
  const Lie lies[] = {
      {"compressed", 10, std::string("\x08\x00", 2)},
      {"encrypted", 8, std::string("\x01\x00", 2)},
      {"size beyond the file", 24, std::string("\xf0\xff\xff\xff", 4)},
      {"compressed size differs", 20, std::string("\x04\x00\x00\x00", 4)},
      {"header beyond the file", 42, std::string("\xf0\xff\xff\xff", 4)},
      {"header of another entry", 42, std::string("\x01\x00\x00\x00", 4)},
      {"Zip64 without its field", 24, std::string("\xff\xff\xff\xff", 4)},
      {"name beyond the directory", 28, std::string("\xff\xff", 2)},
      {"another name than the local one", 46, "z"},
      {"twice the same name", 46, "b.bin"},
      {"another checksum than the local one", 16, std::string("\x01\x01\x01\x01", 4)},
  };
  for (const Lie& lie : lies) {
    std::string bytes = honest;
    bytes.replace(central + lie.from_signature, lie.value.size(), lie.value);
    ArtifactFile file;
    const RuntimeStatus status =
        ArtifactFile::fromMemory({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, &file);
    EXPECT_EQ(status.code(), TESSERA_CORRUPT) << lie.what;
  }
}

TEST(ZipWriterDiskTest, AFullDiskIsTheMachinesFault) {
  ZipWriter zip;
  ASSERT_TRUE(zip.open("/dev/full", false).ok());
  const absl::Status status = zip.add("a.txt", std::string(100'000, 'w'));
  EXPECT_EQ(failureOf(status).reason(), v1::Failure::WORKER_FAULT) << status;
  EXPECT_THAT(status.message(), HasSubstr("cannot write /dev/full: No space left on device"));
}

}  // namespace
}  // namespace tessera::compiler
