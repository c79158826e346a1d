#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "storage/blob_store.h"

namespace tessera::server {

/// Reads blobs that nobody asks for, slowly: what a disk forgets is noticed while somebody may still have it. A blob
/// whose bytes are not those of its name is set aside (BlobStore::get) and counts as missing.
class Scrubber {
 public:
  struct Found {
    int64_t blobs = 0, bytes = 0;  ///< read in this pass
    int64_t damaged = 0;
  };
  struct Told {
    std::function<void(int64_t bytes)> read = {};
    std::function<void(const std::string& sha256, const std::string& why)> damaged = {};
  };
  /// Waits; false: the scrubber is to end.
  using Wait = std::function<bool(double seconds)>;

  /// At most `bytes_per_second`, more than 0, on average over a chunk of a mebibyte.
  Scrubber(storage::BlobStore& blobs, int64_t bytes_per_second, Told told)
      : blobs_(blobs), bytes_per_second_(bytes_per_second), told_(std::move(told)) {}

  /// Every blob once. CANCELLED when `wait` says so. A blob that cannot be read at all (the disk fails) is no damaged
  /// one: it is told of as such by the error, behind all others.
  absl::StatusOr<Found> pass(const Wait& wait);

 private:
  storage::BlobStore& blobs_;
  const int64_t bytes_per_second_;
  const Told told_;
};

}  // namespace tessera::server
