#pragma once

#include "absl/status/status.h"
#include "tessera/v1/record.pb.h"

/// The border for tuning records: of other databases they are no more trusted than any request.
namespace tessera::server {

/// Sizes, bounds, and that its tree is one that prints and parses. INVALID_ARGUMENT names the field.
absl::Status checkRecord(const v1::TuningRecord& record);

absl::Status checkBestRecords(const v1::BestRecordsRequest& request);

}  // namespace tessera::server
