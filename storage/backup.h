#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::storage {

/// Amount of data that a backup or a restore copied.
struct BackupStats {
  int64_t blobs = 0;  ///< blob files copied; existing copies are kept. Small blobs are in the database
  int64_t bytes = 0;
};

/// Copies a data folder ("tessera.db" and "blobs/") into `folder`, also while a service uses it: a snapshot of the
/// database, and each blob that it names. `folder` is created with owner-only permissions. If it holds an earlier
/// backup, only new files are copied, and the earlier backup stays complete until the new database replaces it.
///
/// Blobs are copied before and after the snapshot. Those that the database names and that were created in between are
/// younger than anything a garbage collection deletes. ABORTED: a blob was deleted nevertheless (during a copy of many
/// hours), or another backup into `folder` is running; retry. INVALID_ARGUMENT: `folder` is in the data folder.
/// FAILED_PRECONDITION: a service has used `folder`.
absl::StatusOr<BackupStats> backUp(const std::string& data_folder, const std::string& folder);

/// Creates a data folder from a backup. FAILED_PRECONDITION if it contains a database.
absl::StatusOr<BackupStats> restore(const std::string& folder, const std::string& data_folder);

}  // namespace tessera::storage
