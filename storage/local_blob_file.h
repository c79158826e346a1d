#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "proto/support/status_macros.h"
#include "storage/blob_store.h"
#include "storage/file_system.h"

namespace tessera::storage {

/// A local blob as a file that is read.
class LocalBlobFile : public File {
 public:
  LocalBlobFile(BlobStore& local, v1::Digest digest) : local_(local), digest_(std::move(digest)) {}

  absl::StatusOr<FileInfo> facts() const override { return FileInfo{digest_.size_bytes()}; }
  absl::StatusOr<size_t> readAt(int64_t offset, char* data, size_t size) const override {
    size_t done = 0;
    const auto limit = std::min<int64_t>(static_cast<int64_t>(size), digest_.size_bytes() - offset);
    if (limit <= 0) return done;
    TESSERA_RETURN_IF_ERROR(local_.get(digest_.sha256(), offset, limit, [&](std::string_view chunk) {
      chunk.copy(data + done, chunk.size());
      done += chunk.size();
      return absl::OkStatus();
    }));
    return done;
  }
  absl::Status writeAt(int64_t, std::string_view) override { return readOnly(); }
  absl::Status truncate(int64_t) override { return readOnly(); }
  absl::Status sync() override { return readOnly(); }

 private:
  static absl::Status readOnly() { return absl::InternalError("a blob is only read"); }

  BlobStore& local_;
  const v1::Digest digest_;
};

}  // namespace tessera::storage
