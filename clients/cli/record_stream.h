#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "tessera/v1/record.pb.h"

/// Tuning records out of a service and into one.
namespace tessera::client {

/// Hands every record that the filter selects to `use`, oldest first, whatever their number.
absl::Status forEachRecord(Channel& channel, const std::string& filter,
                           const std::function<void(const v1::TuningRecord&)>& use);

/// Writes them as JSON, one a line. The exit code; an error is reported.
int exportRecords(const CommandLine& line, Channel& channel, const std::string& filter, std::ostream& out);

/// Reads such lines and sends them to the service in batches; of a folder, what TVM's MetaSchedule measured
/// (metaschedule.h), whose records without a place here count as refused. A line that is no record is an error that
/// names it, and what came before it is stored by then.
absl::StatusOr<v1::ImportRecordsResponse> importRecords(Channel& channel, const std::vector<std::string>& paths,
                                                        bool validate_only);

/// Whether the record has a time that counts: it was timed, and its answer is not known to be wrong.
bool counts(const v1::TuningRecord& record);

}  // namespace tessera::client
