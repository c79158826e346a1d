#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/support/sha256.h"
#include "storage/objects/object_store.h"
#include "storage/scratch_folder.h"

namespace tessera::storage {

/// Factory of one kind of object store for a test. All kinds pass the same suite.
struct ObjectStoreKind {
  const char* name;
  /// Opens an empty store that lasts for the test. `scratch`: a folder that it may use.
  std::function<std::unique_ptr<ObjectStore>(const std::string& scratch)> open;
  /// More than this is sent in several parts.
  int64_t part_bytes = 1 << 20;
};

/// Bytes in memory as a file that is read.
class BytesFile : public File {
 public:
  explicit BytesFile(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<FileInfo> facts() const override { return FileInfo{static_cast<int64_t>(bytes_.size())}; }
  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
    return static_cast<size_t>(offset) >= bytes_.size() ? 0 : bytes_.copy(data, size, static_cast<size_t>(offset));
  }
  absl::Status writeAt(int64_t, std::string_view) override { return absl::InternalError("only read"); }
  absl::Status truncate(int64_t) override { return absl::InternalError("only read"); }
  absl::Status sync() override { return absl::OkStatus(); }

 private:
  const std::string bytes_;
};

/// Stores bytes as an object; the digest is that of `as`, by default the bytes'.
inline absl::Status putObject(ObjectStore& store, const std::string& name, const std::string& bytes,
                              const std::string& as) {
  v1::Digest digest;
  digest.set_sha256(sha256Hex(as));
  digest.set_size_bytes(static_cast<int64_t>(as.size()));
  return store.put(name, BytesFile(bytes), digest);
}
inline absl::Status putObject(ObjectStore& store, const std::string& name, const std::string& bytes) {
  return putObject(store, name, bytes, bytes);
}

inline absl::StatusOr<std::string> getObject(ObjectStore& store, const std::string& name, int64_t offset = 0,
                                             int64_t limit = 0) {
  std::string bytes;
  absl::Status status = store.get(name, offset, limit, [&](std::string_view chunk) {
    bytes.append(chunk);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return bytes;
}

/// Names of the objects, as list() visits them; at most `most`.
inline std::vector<std::string> namesIn(ObjectStore& store, const std::string& prefix, const std::string& after = "",
                                        size_t most = 100'000) {
  std::vector<std::string> names;
  EXPECT_TRUE(store
                  .list(prefix, after,
                        [&](const ObjectInfo& object) {
                          names.push_back(object.name);
                          return names.size() < most;
                        })
                  .ok());
  return names;
}

class ObjectStoreConformance : public testing::TestWithParam<ObjectStoreKind> {
 protected:
  void SetUp() override {
    store_ = GetParam().open(folder_.path());
    ASSERT_NE(store_, nullptr);
  }
  ScratchFolder folder_;
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace tessera::storage
