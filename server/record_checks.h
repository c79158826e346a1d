#pragma once

#include "absl/status/status.h"
#include "tessera/v1/record.pb.h"

/// Validation of imported tuning records, which are as untrusted as any request.
namespace tessera::server {

/// Checks sizes and ranges, and that the tree prints and parses. INVALID_ARGUMENT names the field.
absl::Status checkRecord(const v1::TuningRecord& record);

absl::Status checkBestRecords(const v1::BestRecordsRequest& request);

}  // namespace tessera::server
