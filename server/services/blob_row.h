#pragma once

#include <string>

#include "server/access/quotas.h"
#include "server/clock.h"
#include "storage/blob_store.h"
#include "storage/store.h"

namespace tessera::server {

/// RESOURCE_EXHAUSTED where the project's rows, `unfinished` bytes beside them and `more` would pass its quota. Of no
/// project (workers): never.
absl::Status checkRoom(Quotas& quotas, storage::Reader& reader, const std::string& project, int64_t unfinished,
                       int64_t more);

/// Puts the row of a blob whose file is durable. ABORTED when the file is gone again; the quota of a project that does
/// not hold it yet is asked once more.
absl::Status putBlobRow(storage::Transaction& tx, storage::BlobStore& blobs, Quotas& quotas, int64_t now_us,
                        const std::string& project, const v1::Digest& digest, int64_t unfinished);

}  // namespace tessera::server
