#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/worker_service.pb.h"
#include "workers/sandbox/isolation.h"

/// The sandbox measures that are available on this machine, and why others are not.
namespace tessera::worker {

/// |  name          | in force if                                                                                |
/// |----------------|--------------------------------------------------------------------------------------------|
/// | system-calls   | always: no task starts without seccomp                                                     |
/// | privileges     | always: no capabilities, and no way to gain any                                            |
/// | limits         | always: memory, CPU time, open files, file size, no core files                             |
/// | files          | the kernel has Landlock                                                                    |
/// | namespaces     | the kernel lets this worker create them, and tasks are forked                              |
/// | user           | tasks have another user than the worker, which requires root                               |
/// | processes      | with that user, or a user namespace: otherwise the limit would also count other processes  |
/// | scratch        | the total size of a task's files is limited                                                |
using Measures = google::protobuf::RepeatedPtrField<v1::SandboxMeasure>;

struct SandboxOptions {
  std::string user{};         ///< user of tasks; empty: the worker's own
  bool namespaces = true;     ///< use namespaces where possible
  bool forks = true;          ///< tasks are forked, not executed
  int64_t scratch_bytes = 0;  ///< size limit of one task's files; 0: none
  int64_t tasks = 1;          ///< concurrent tasks of this user on this machine
};

/// Sandbox parameters of each task.
struct SandboxPlan {
  Isolation isolation;  ///< without its folder
  int64_t scratch_bytes = 0;
  int64_t processes = 0;  ///< limit of processes and threads of the tasks' user; 0: none
  Measures measures;      ///< in the order of the table
};

/// Tests below `folder` which measures this machine supports. INVALID_ARGUMENT: the user does not exist.
/// FAILED_PRECONDITION: tasks cannot run as that user; an explicit request is never dropped silently. Forks, so call it
/// before the first thread is started.
absl::StatusOr<SandboxPlan> planSandbox(const SandboxOptions& wishes, const std::string& folder);

/// FAILED_PRECONDITION names each measure of `required` ("full": all) that is not in force, and why; INVALID_ARGUMENT
/// for an unknown measure.
absl::Status checkMeasures(const std::vector<std::string>& required, const Measures& measures);

}  // namespace tessera::worker
