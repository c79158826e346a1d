#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/store.h"

namespace tessera::storage {

/// A place of a service's data: a data folder, or a PostgreSQL database with an object store.
struct DataPlace {
  std::string store;  ///< a folder, or "postgresql://..."
  std::string blobs;  ///< of a database: a bucket or an absolute path (open_objects.h); empty for a folder
};

struct TransferStats {
  bool complete = false;  ///< false: a service uses the source, so a further run must copy what it changes
  int64_t rows = 0;       ///< in the source
  int64_t rows_written = 0, rows_erased = 0;
  int64_t blobs = 0, bytes = 0;  ///< outside of the rows, in the source
  int64_t blobs_copied = 0, bytes_copied = 0;
  int64_t blobs_missing = 0;  ///< damaged or missing in the source; they count as lost in the target
  std::string digest;         ///< SHA-256 of all rows, equal in the source and in the target; empty unless complete
};

/// Reports progress: a phase such as "blobs", and numbers of items.
using TransferProgress = std::function<void(const std::string& phase, int64_t done, int64_t total)>;

/// Copies all data of a service from a data folder to a PostgreSQL database and an object store, or back. Compares the
/// rows of both sides and writes only the differences, and copies only the blobs that the target lacks, so a run
/// continues an interrupted one. The source is never changed, except that its schema is brought to this release.
///
/// While a service uses the source, the run copies a snapshot, and the result is not complete. Once no service uses it,
/// a run copies the rest, compares each row, and reads each blob back from the target to verify its digest; then the
/// target may be used. Until then checkTransferred() refuses it.
///
/// FAILED_PRECONDITION: the target has data of its own, a transfer from another source has begun there, or a service
/// uses it. INVALID_ARGUMENT: the two places are of the same kind. NOT_FOUND: the source has no data. ABORTED: a
/// service started on the source during the final run.
///
/// `finish` copies what is neither a row nor a blob; it is called when everything else is complete.
absl::StatusOr<TransferStats> transfer(const DataPlace& from, const DataPlace& to, const TransferProgress& progress,
                                       const std::function<absl::Status()>& finish = nullptr);

/// FAILED_PRECONDITION if a transfer into this store has begun and is not complete.
absl::Status checkTransferred(Store& store);

}  // namespace tessera::storage
