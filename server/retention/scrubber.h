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

/// Reads all blobs slowly, so that damage on disk is found while a copy may still exist elsewhere. A blob whose bytes
/// do not match its digest is set aside (BlobStore::get) and counts as missing, as does one without a file (losses.h).
class Scrubber {
 public:
  struct Found {
    int64_t blobs = 0, bytes = 0;  ///< read in this pass
    int64_t damaged = 0;           ///< or missing
  };
  struct Told {
    std::function<void(int64_t bytes)> read = {};
    std::function<void(const std::string& sha256, const std::string& why)> damaged = {};
  };
  /// Waits; false: end the pass.
  using Wait = std::function<bool(double seconds)>;

  /// Reads at most `bytes_per_second` (more than 0), averaged over a chunk of one MiB.
  Scrubber(storage::Store& store, storage::BlobStore& blobs, int64_t bytes_per_second, Told told)
      : store_(store), blobs_(blobs), bytes_per_second_(bytes_per_second), told_(std::move(told)) {}

  /// Checks that each row has a file, and reads each blob once. CANCELLED if `wait` returns false. A read error of the
  /// disk does not count as damage; it is returned at the end of the pass.
  absl::StatusOr<Found> pass(const Wait& wait);

 private:
  /// Rows without a file.
  absl::Status findGone(const Wait& wait, Found& found);
  void tell(const std::string& sha256, const std::string& why, Found& found);

  storage::Store& store_;
  storage::BlobStore& blobs_;
  const int64_t bytes_per_second_;
  const Told told_;
};

}  // namespace tessera::server
