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

/// Calls `use` with each record, in the order of the file, until `use` returns false. Counts the records that cannot be
/// converted in `result.refused` and adds their lines and reasons to `result.problems`. INVALID_ARGUMENT for the first
/// line that MetaSchedule does not write, naming file and line.
absl::Status readMetaSchedule(const std::string& folder, const std::function<bool(v1::TuningRecord)>& use,
                              v1::ImportRecordsResponse& result);

}  // namespace tessera::client
