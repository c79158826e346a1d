#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/blob_store.h"
#include "storage/file_system.h"
#include "storage/objects/object_store.h"

namespace tessera::storage {

/// Unfinished uploads of projects in an object store, so that a client may continue on another server: objects
/// "partials/SHA256_BYTES_HASH_PROJECT", where HASH is the SHA-256 of the first BYTES bytes, which the object holds.
/// Thread-safe.
class SharedPartials {
 public:
  /// Smaller blobs and prefixes are not shared: sending them again costs less than the requests.
  static constexpr int64_t kLeastBytes = int64_t{4} << 20;

  SharedPartials(ObjectStore& objects, FileSystem& files, std::string folder)
      : objects_(objects), files_(files), folder_(std::move(folder)) {}

  struct Found {
    std::string name;
    int64_t bytes = 0;
    std::string sha256;  ///< of these bytes
  };
  /// The longest prefix of a project's upload; nothing if there is none.
  absl::StatusOr<std::optional<Found>> find(const v1::Digest& digest, const std::string& project);

  /// Stores the local partial file of an upload, unless `known` (what the object store holds of it) is as long.
  absl::Status store(const v1::Digest& digest, const std::string& project, const std::optional<Found>& known);

  /// Continues a local upload, opened at offset 0, with the bytes found.
  absl::Status fetch(const Found& found, BlobStore::Upload& to);

  void remove(const Found& found) { (void)objects_.remove(found.name); }
  /// Removes those that were written at least `age_s` seconds ago.
  absl::StatusOr<int> removeStale(int64_t age_s);

 private:
  ObjectStore& objects_;
  FileSystem& files_;
  const std::string folder_;  ///< local folder of the blobs
};

}  // namespace tessera::storage
