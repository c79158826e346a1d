#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "tessera/v1/record.pb.h"

/// Export and import of tuning records.
namespace tessera::client {

/// Passes every record that the filter selects to `use`, oldest first, across all pages.
absl::Status forEachRecord(Channel& channel, const std::string& filter,
                           const std::function<void(const v1::TuningRecord&)>& use);

/// Writes the records as JSON, one per line. Returns the exit code; errors are reported.
int exportRecords(const CommandLine& line, Channel& channel, const std::string& filter, std::ostream& out);

/// Reads such lines and sends them to the service in batches. For a folder, imports the measurements of TVM's
/// MetaSchedule (metaschedule.h); records that cannot be represented count as refused. A line that is not a record is
/// an error that names it; earlier records are stored by then.
absl::StatusOr<v1::ImportRecordsResponse> importRecords(Channel& channel, const std::vector<std::string>& paths,
                                                        bool validate_only);

/// Whether the record has a measured time and its results are not known to be wrong.
bool hasValidTime(const v1::TuningRecord& record);

}  // namespace tessera::client
