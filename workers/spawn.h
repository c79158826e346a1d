#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/child_process.h"
#include "workers/child_setup.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

/// Closed by exec; reads of this end do not block, the writes of a child do.
absl::StatusOr<Pipe> openPipe();

/// Forks and executes `spec`'s program as the leader of a new process group, with `output` as descriptors
/// 1 and 2 and `progress` as 3.
absl::StatusOr<Spawned> spawnGroup(const ChildSpec& spec, int output, int progress);

/// The step that failed before a child began, as Spawned::report has it by now: FAILED_PRECONDITION, which names
/// `program` too.
absl::Status readReport(const std::string& program, int report);

/// FAILED_PRECONDITION naming program and step.
absl::Status cannotStart(const std::string& program, const ChildReport& report);

/// What every child may know of its surroundings: where programs are, the language, options of sanitizers, and
/// what the host's description is limited to.
std::vector<std::string> cleanEnvironment();

}  // namespace tessera::worker
