#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tessera/v1/record.pb.h"

/// Imports the work folder of TVM's MetaSchedule as tuning records.
///
/// Two files have one JSON array per line: database_workload.json holds [structural hash, base64 of the module], and
/// database_tuning_record.json holds [line of the workload, [trace, seconds of each run, target, arguments]]. A trace
/// consists of instructions for TVM's loops. It cannot be converted to a tile tree, so these records have times but no
/// schedule.
namespace tessera::client {

/// Passes each record to `take`, in the order of the file, until `take` returns false. Records that cannot be
/// represented are counted in `told.refused`, and its problems name line and reason. Fails at a line that is not
/// MetaSchedule's, and names it.
absl::Status readMetaSchedule(const std::string& folder, const std::function<bool(v1::TuningRecord)>& take,
                              v1::ImportRecordsResponse& told);

}  // namespace tessera::client
