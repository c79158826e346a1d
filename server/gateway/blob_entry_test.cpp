#include "server/gateway/blob_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <map>

#include "absl/strings/str_cat.h"

namespace tessera::server::gateway {
namespace {

constexpr int64_t kMost = 1 << 20;

/// The bytes of a zip file whose entries are not compressed.
std::string zipOf(const std::map<std::string, std::string>& entries) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* memory = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(memory);
  zip_t* archive = zip_open_from_source(memory, ZIP_TRUNCATE, &error);
  for (const auto& [name, content] : entries) {
    const auto index = static_cast<zip_uint64_t>(zip_file_add(
        archive, name.c_str(), zip_source_buffer(archive, content.data(), content.size(), 0), ZIP_FL_ENC_UTF_8));
    zip_set_file_compression(archive, index, ZIP_CM_STORE, 0);
  }
  EXPECT_EQ(zip_close(archive), 0);
  EXPECT_EQ(zip_source_open(memory), 0);
  EXPECT_EQ(zip_source_seek(memory, 0, SEEK_END), 0);
  std::string bytes(static_cast<size_t>(zip_source_tell(memory)), '\0');
  EXPECT_EQ(zip_source_seek(memory, 0, SEEK_SET), 0);
  EXPECT_EQ(zip_source_read(memory, bytes.data(), bytes.size()), static_cast<zip_int64_t>(bytes.size()));
  zip_source_close(memory);
  zip_source_free(memory);
  return bytes;
}

/// A file that counts the bytes read from it.
struct File {
  explicit File(std::string content) : bytes(std::move(content)) {}
  absl::StatusOr<std::string> entry(const std::string& name, int64_t most = kMost) {
    const ReadRange read = [this](int64_t offset, int64_t length) -> absl::StatusOr<std::string> {
      EXPECT_GE(offset, 0);
      EXPECT_LE(offset + length, static_cast<int64_t>(bytes.size()));
      taken += length;
      return bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    };
    return entryOf(static_cast<int64_t>(bytes.size()), read, name, most);
  }
  std::string bytes;
  int64_t taken = 0;
};

TEST(BlobEntry, ReadsAnEntryAndLittleElse) {
  File file(zipOf({{"plan.pb", "the plan"}, {"weights.bin", std::string(16 << 20, 'w')}, {"a", "b"}}));
  EXPECT_EQ(file.entry("plan.pb").value(), "the plan");
  EXPECT_LT(file.taken, 2 << 20) << "of 16 MiB of weights";
  EXPECT_EQ(file.entry("a").value(), "b");
}

TEST(BlobEntry, SaysWhatIsWrong) {
  File file(zipOf({{"plan.pb", std::string(1000, 'p')}}));
  EXPECT_TRUE(absl::IsNotFound(file.entry("plan").status()));
  EXPECT_TRUE(absl::IsResourceExhausted(file.entry("plan.pb", 999).status()));
  for (const std::string& bytes : {std::string("PK"), std::string(5000, 'x'), file.bytes.substr(0, 900)}) {
    EXPECT_TRUE(absl::IsDataLoss(File(bytes).entry("plan.pb").status())) << bytes.size();
  }
  std::string damaged = file.bytes;
  damaged[500] = 'q';
  EXPECT_TRUE(absl::IsDataLoss(File(damaged).entry("plan.pb").status())) << "its checksum is looked at";
}

TEST(BlobEntry, AnErrorOfReadingIsTheAnswer) {
  const ReadRange refuse = [](int64_t, int64_t) { return absl::PermissionDeniedError("not yours"); };
  EXPECT_TRUE(absl::IsPermissionDenied(entryOf(1000, refuse, "plan.pb", kMost).status()));
}

TEST(BlobEntry, AHugeDirectoryIsNotReadForEver) {
  std::map<std::string, std::string> entries;
  for (int i = 0; i < 60'000; ++i) {
    entries[absl::StrCat(std::string(60, 'n'), i)] = "";
  }
  File file(zipOf(entries));
  EXPECT_TRUE(absl::IsResourceExhausted(file.entry("plan.pb", 1).status()));
  EXPECT_LE(file.taken, 5 << 20);
}

}  // namespace
}  // namespace tessera::server::gateway
