#pragma once

#include "absl/status/status.h"
#include "tessera/v1/task.pb.h"
#include "workers/blob_cache.h"
#include "workers/blob_client.h"
#include "workers/scratch.h"

namespace tessera::worker {

/// Hashes each file that `result` names, sets its digest, and makes large outputs of an execute task refer to their
/// files. Small files are inlined (OutputFile.data), others are uploaded. An invalid name or file is the task's fault,
/// and the result becomes a failure. An error status means that the upload failed (CANCELLED: the attempt ended).
absl::Status storeOutputs(v1::TaskResult& result, const v1::TaskSpec& task, const AttemptFolder& folder,
                          BlobClient& client, BlobCache& cache, Cancellation& attempt);

}  // namespace tessera::worker
