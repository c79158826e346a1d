#pragma once

#include <string>

#include "server/access/quotas.h"
#include "server/clock.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// RESOURCE_EXHAUSTED if the bytes of the project's blobs, its `unfinished` bytes and `more` exceed its quota. An empty
/// project name means that a worker uploads the blob: workers belong to no project, and no quota applies.
absl::Status checkRoom(Quotas& quotas, storage::Reader& reader, const std::string& project, int64_t unfinished,
                       int64_t more);

/// Stores the row of a blob whose file is durable. ABORTED if the file has been deleted meanwhile. Checks the quota
/// again if the project does not hold the blob yet.
absl::Status putBlobRow(storage::Transaction& tx, storage::BlobStore& blobs, Quotas& quotas, int64_t now_us,
                        const std::string& project, const v1::Digest& digest, int64_t unfinished);

}  // namespace tessera::server
