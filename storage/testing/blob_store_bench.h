#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "proto/support/sha256.h"
#include "storage/blob_store.h"
#include "storage/conformance/samples.h"
#include "storage/scratch_folder.h"
#include "storage/sqlite_store.h"

namespace tessera::storage {

inline v1::Digest digestOf(const std::string& bytes) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(bytes));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

/// Opens a store on the test's file system, which must outlive it.
inline absl::StatusOr<std::unique_ptr<BlobStore>> openOn(FileSystem& files) {
  BlobStoreOptions options;
  options.files = &files;
  return openBlobStore("/blobs", options);
}

inline std::string nameOfMostRowBytes(const testing::TestParamInfo<int64_t>& info) {
  return info.param < 0 ? "Files" : info.param < 1 << 20 ? "SmallAsRows" : "Rows";
}

/// A store below a temporary folder, with a database. The parameter is the maximum size of a blob stored as a row;
/// negative: all blobs are files.
class BlobStoreTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { reopen({}); }
  bool isRow(const std::string& bytes) const { return static_cast<int64_t>(bytes.size()) <= GetParam(); }
  void reopen(BlobStoreOptions options) {
    store_.reset();
    if (GetParam() >= 0) {
      rows_.reset();
      auto rows = openSqliteStore(folder_.file("tessera.db"));
      ASSERT_OK(rows.status());
      rows_ = *std::move(rows);
      options.rows = rows_.get();
      options.most_row_bytes = GetParam();
    }
    auto store = openBlobStore(root_, options);
    ASSERT_OK(store.status());
    store_ = *std::move(store);
  }
  absl::StatusOr<std::string> read(const std::string& sha256, int64_t offset = 0, int64_t limit = 0) {
    std::string bytes;
    absl::Status status = store_->get(sha256, offset, limit, [&](std::string_view chunk) {
      bytes.append(chunk);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return bytes;
  }
  std::string pathOf(const std::string& sha256) {
    return root_ + "/" + sha256.substr(0, 2) + "/" + sha256.substr(2, 2) + "/" + sha256;
  }
  int filesIn(const std::string& folder) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "/" + folder))
      count += entry.is_regular_file();
    return count;
  }

  ScratchFolder folder_;
  const std::string root_ = folder_.file("blobs");
  std::unique_ptr<Store> rows_;
  std::unique_ptr<BlobStore> store_;
  const std::string bytes_ = std::string(3 << 20, 'a') + "end";
  const v1::Digest digest_ = digestOf(bytes_);
};

}  // namespace tessera::storage
