#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::storage {

/// What a backup or a restoration moved.
struct BackupFacts {
  int64_t blobs = 0;  ///< files copied now; those that were there stay. Small blobs are in the database.
  int64_t bytes = 0;
};

/// Copies a data folder ("tessera.db" and "blobs/") into `folder`, while a service may be working on it: the database
/// as of one moment, and every blob it names. `folder` is made for its owner alone; over an earlier backup, only what
/// is new is copied, and the earlier one is whole until the new database takes its place.
///
/// Blobs are copied before the moment and again after it: what the database names and came in between is younger than
/// anything a collection deletes. ABORTED when a blob went all the same (a copy that took hours), or while another
/// backup is made in `folder`: start it again. INVALID_ARGUMENT where `folder` is the data folder or within it,
/// FAILED_PRECONDITION where a service has worked on it.
absl::StatusOr<BackupFacts> backUp(const std::string& data_folder, const std::string& folder);

/// Makes a data folder of a backup. FAILED_PRECONDITION where there is a database already.
absl::StatusOr<BackupFacts> restore(const std::string& folder, const std::string& data_folder);

}  // namespace tessera::storage
