#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/objects/object_store.h"

namespace tessera::storage {

/// Objects as files of an existing folder that several machines mount (NFS, CephFS). Needs no locks: a file is written
/// under a name that no other process uses, synced, and renamed to its final name. Files are read and written by
/// system calls, never mapped. Layout:
///
///     tessera-objects             marks the folder; without it the file system is not mounted
///     tmp/NAME.RANDOM.NUMBER      objects being written
///     blobs/ab/cd/abcd...         the object "blobs/abcd..."
///
/// FAILED_PRECONDITION if there is no such folder, or if it is `known`, used before, and has no mark. `files` must
/// outlive the store; null: the operating system's.
absl::StatusOr<std::unique_ptr<ObjectStore>> openFolderObjects(const std::string& folder, bool known = false,
                                                               FileSystem* files = nullptr);

}  // namespace tessera::storage
