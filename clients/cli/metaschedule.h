#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tessera/v1/record.pb.h"

/// What TVM's MetaSchedule leaves in its work folder, as tuning records.
///
/// Two files, a JSON array a line: database_workload.json has [structural hash, base64 of the module], and
/// database_tuning_record.json [line of the workload, [trace, seconds of each run, target, arguments]].
/// A trace is instructions for TVM's loops: no tree follows from it, so these records have times and no schedule.
namespace tessera::client {

/// Hands each record to `take`, in the order of the file, until that says no. What has no place here is counted in
/// `told.refused`, and its problems name line and reason. Fails where a line is not MetaSchedule's, naming it.
absl::Status readMetaSchedule(const std::string& folder, const std::function<bool(v1::TuningRecord)>& take,
                              v1::ImportRecordsResponse& told);

}  // namespace tessera::client
