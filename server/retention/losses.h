#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// Somebody who reads a blob met no file, or bytes that are not its own (which BlobStore::get sets aside). Unless a
/// sound file is there by now, the blob's row says that it is lost: who names it next sends it, or makes it anew.
/// Whether the row says so since this call: false too where the blob was deleted, or its loss was known.
absl::StatusOr<bool> noteLoss(storage::Store& store, storage::BlobStore& blobs, const std::string& sha256);

}  // namespace tessera::server
