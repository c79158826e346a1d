#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// Reads blobs that nobody asks for, slowly: what a disk forgets is noticed while somebody may still have it. A blob
/// whose bytes are not those of its name is set aside (BlobStore::get) and counts as missing, as does one whose file is
/// gone: their rows say so (losses.h).
class Scrubber {
 public:
  struct Found {
    int64_t blobs = 0, bytes = 0;  ///< read in this pass
    int64_t damaged = 0;           ///< or gone
  };
  struct Told {
    std::function<void(int64_t bytes)> read = {};
    std::function<void(const std::string& sha256, const std::string& why)> damaged = {};
  };
  /// Waits; false: the scrubber is to end.
  using Wait = std::function<bool(double seconds)>;

  /// At most `bytes_per_second`, more than 0, on average over a chunk of a mebibyte.
  Scrubber(storage::Store& store, storage::BlobStore& blobs, int64_t bytes_per_second, Told told)
      : store_(store), blobs_(blobs), bytes_per_second_(bytes_per_second), told_(std::move(told)) {}

  /// Looks for every row's file, and reads every blob once. CANCELLED when `wait` says so. A blob that cannot be read
  /// at all (the disk fails) is no damaged one: it is told of as such by the error, behind all others.
  absl::StatusOr<Found> pass(const Wait& wait);

 private:
  /// Rows that say that there is a blob, of which there is no file.
  absl::Status findGone(const Wait& wait, Found& found);
  void tell(const std::string& sha256, const std::string& why, Found& found);

  storage::Store& store_;
  storage::BlobStore& blobs_;
  const int64_t bytes_per_second_;
  const Told told_;
};

}  // namespace tessera::server
