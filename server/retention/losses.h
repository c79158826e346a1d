#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// Call after reading a blob whose file is missing or damaged (BlobStore::get sets damaged files aside). Marks the
/// blob's row as lost, unless a sound file exists by now; the next request that names it uploads or builds it again.
/// Returns whether this call has marked it: false if the blob was deleted, or was marked already.
absl::StatusOr<bool> noteLoss(storage::Store& store, storage::BlobStore& blobs, const std::string& sha256);

}  // namespace tessera::server
