#pragma once

#include "absl/status/status.h"
#include "tessera/v1/task.pb.h"
#include "workers/blob_cache.h"
#include "workers/blob_client.h"
#include "workers/scratch.h"

namespace tessera::worker {

/// Hashes every file that `result` names, fills in their digests, and refers large outputs of an execute task to
/// theirs. Small files are put into the result (OutputFile.data), others are uploaded. A name or file that is not
/// acceptable is the task's fault: the result then becomes a failure. An error status means that the upload did not
/// succeed (CANCELLED: the attempt ended).
absl::Status storeOutputs(v1::TaskResult& result, const v1::TaskSpec& task, const AttemptFolder& folder,
                          BlobClient& client, BlobCache& cache, Cancellation& attempt);

}  // namespace tessera::worker
