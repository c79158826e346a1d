#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/file_system.h"

namespace tessera::storage {

/// The file "object-store" in a local folder of blobs names the object store whose blobs the folder caches. Without it
/// the folder holds the blobs themselves.

/// The object store's place; empty if there is none.
absl::StatusOr<std::string> readBlobsPlace(const std::string& folder, FileSystem& files);
/// Durable on return.
absl::Status writeBlobsPlace(const std::string& folder, FileSystem& files, const std::string& place);

}  // namespace tessera::storage
