#pragma once

#include "tessera/v1/failure.pb.h"
#include "workers/child_process.h"

namespace tessera::worker {

/// Classifies the end of a task process that left no result as a failure. The message says what ended the process and
/// contains the last lines of its output.
///
/// | end                                             | reason                |
/// |-------------------------------------------------|-----------------------|
/// | stopped by the worker: deadline; SIGXCPU        | RUN_DEADLINE_EXCEEDED |
/// | stopped by the worker: cancelled                | CANCELLED             |
/// | stopped by the worker: lease lost, shutdown     | LEASE_LOST            |
/// | stopped by the worker: folder over its limit    | LIMIT_EXCEEDED        |
/// | kTaskOutOfMemory; SIGKILL near the memory limit | OUT_OF_MEMORY         |
/// | SIGSYS                                          | SANDBOX_VIOLATION     |
/// | SIGXFSZ                                         | LIMIT_EXCEEDED        |
/// | SIGBUS, unless it runs generated code           | WORKER_FAULT          |
/// | kTaskCannotStart, kTaskCannotReport, no start   | WORKER_FAULT          |
/// | kTaskOtherBuild                                 | WORKER_FAULT          |
/// | exit code 0                                     | INTERNAL              |
/// | any other signal or exit code                   | CRASHED               |
v1::Failure failureOfExit(const ChildExit& end, const ChildSpec& spec);

/// Failure of a task that did not run, because the task program is of another build than the one the worker started
/// with.
v1::Failure otherBuild(std::string message);

}  // namespace tessera::worker
