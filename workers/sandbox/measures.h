#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/worker_service.pb.h"
#include "workers/sandbox/isolation.h"

/// What keeps a task in on this machine: which measures there are, whether each is in force, and if not why.
namespace tessera::worker {

/// |  name          | in force when                                                                              |
/// |----------------|--------------------------------------------------------------------------------------------|
/// | system-calls   | always: without seccomp no task begins                                                     |
/// | privileges     | always: no capability, none to be had                                                      |
/// | limits         | always: memory, processor time, open files, size of a file, core files                     |
/// | files          | the kernel has Landlock                                                                    |
/// | namespaces     | the kernel lets this worker make them, and tasks are forked                                |
/// | user           | tasks have another user than the worker, which takes root                                  |
/// | processes      | that user, or a user namespace: only there a bound of processes and threads is of tasks    |
/// | scratch        | what a task may write is bounded in all                                                    |
using Measures = google::protobuf::RepeatedPtrField<v1::SandboxMeasure>;

struct SandboxWishes {
  std::string user{};         ///< of tasks; empty: the worker's own
  bool namespaces = true;     ///< where it can be
  bool forks = true;          ///< tasks are forked
  int64_t scratch_bytes = 0;  ///< of one task; 0: any
  int64_t tasks = 1;          ///< of this user on this machine at a time
};

/// What each task is started with.
struct SandboxPlan {
  Isolation isolation;  ///< without its folder
  int64_t scratch_bytes = 0;
  int64_t processes = 0;  ///< and threads, of the tasks' user; 0: not bounded
  Measures measures;      ///< in the table's order
};

/// Tries out on this machine, below `folder`, what there can be. INVALID_ARGUMENT when there is no such user,
/// FAILED_PRECONDITION when tasks cannot have it: what was asked for is not left out silently. Forks; call it before
/// the first thread is started.
absl::StatusOr<SandboxPlan> planSandbox(const SandboxWishes& wishes, const std::string& folder);

/// FAILED_PRECONDITION naming each of `required` ("full" is all there are) that is not in force, and why;
/// INVALID_ARGUMENT for one that there is not.
absl::Status checkMeasures(const std::vector<std::string>& required, const Measures& measures);

}  // namespace tessera::worker
