#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/blob_store.h"
#include "storage/file_system.h"
#include "storage/objects/object_store.h"

namespace tessera::storage {

/// Unfinished uploads of projects in an object store, so that a client may continue on another server. Each
/// interruption adds what was received since the last one as an object "partials/SHA256_BEGIN_END_HASH_PROJECT", where
/// HASH is the SHA-256 of the bytes [BEGIN, END) of the blob, which the object holds. Thread-safe.
class SharedPartials {
 public:
  /// Smaller blobs and segments are not shared: sending them again costs less than the requests.
  static constexpr int64_t kMinBytes = int64_t{4} << 20;

  SharedPartials(ObjectStore& objects, FileSystem& files, std::string folder)
      : objects_(objects), files_(files), folder_(std::move(folder)) {}

  struct Segment {
    std::string name;
    int64_t begin = 0, end = 0;
    std::string sha256;  ///< of these bytes
  };
  struct Found {
    std::vector<Segment> chain;  ///< adjacent segments, from the blob's first byte
    int64_t bytes = 0;           ///< of the chain
  };
  /// The longest prefix of a project's upload; nothing if there is none.
  absl::StatusOr<std::optional<Found>> find(const v1::Digest& digest, const std::string& project);

  /// Stores what the local partial file of an upload has beyond the longest prefix.
  absl::Status store(const v1::Digest& digest, const std::string& project);

  /// Continues a local upload, opened at offset `from`, with the rest of the bytes found.
  absl::Status fetch(const Found& found, int64_t from, BlobStore::Upload& to);

  /// Removes all segments of a project's upload.
  absl::Status remove(const v1::Digest& digest, const std::string& project);
  /// Removes those that were written at least `age_s` seconds ago.
  absl::StatusOr<int> removeStale(int64_t age_s);

 private:
  absl::StatusOr<std::vector<Segment>> segmentsOf(const v1::Digest& digest, const std::string& project);

  ObjectStore& objects_;
  FileSystem& files_;
  const std::string folder_;  ///< local folder of the blobs
};

}  // namespace tessera::storage
