#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/child_process.h"
#include "workers/child_setup.h"

namespace tessera::worker {

/// Forks and executes `spec`'s program as the leader of a new process group, with `output` as descriptors
/// 1 and 2 and `progress` as 3. Returns once the program runs, or with the step that failed.
absl::StatusOr<Spawned> spawnGroup(const ChildSpec& spec, int output, int progress);

/// FAILED_PRECONDITION naming program and step.
absl::Status cannotStart(const ChildSpec& spec, const ChildReport& report);

/// What every child may know of its surroundings: where programs are, the language, options of sanitizers.
std::vector<std::string> cleanEnvironment();

}  // namespace tessera::worker
