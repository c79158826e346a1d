#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/child_process.h"
#include "workers/child_setup.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

/// A pipe that exec closes. Reads do not block; a child's writes do.
absl::StatusOr<Pipe> openPipe();

/// Forks and executes `spec`'s program as the leader of a new process group, with `output` as descriptors 1 and 2 and
/// `progress` as 3.
absl::StatusOr<Spawned> spawnGroup(const ChildSpec& spec, int output, int progress);

/// Returns the setup failure in Spawned::report, if one has arrived: FAILED_PRECONDITION naming `program` and the step.
absl::Status readReport(const std::string& program, int report);

/// FAILED_PRECONDITION naming program and step.
absl::Status cannotStart(const std::string& program, const ChildReport& report);

/// The environment of a child: PATH, LANG, the sanitizers' options, and TESSERA_HOST_FEATURES, which restricts the CPU
/// features that the compiler may use on this host.
std::vector<std::string> cleanEnvironment();

}  // namespace tessera::worker
