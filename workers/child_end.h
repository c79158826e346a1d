#pragma once

#include "tessera/v1/failure.pb.h"
#include "workers/child_process.h"

namespace tessera::worker {

/// What the end of a task process that left no result means, as a typed failure. The message names what
/// ended it and carries the last lines it printed.
///
/// | end                                             | reason                |
/// |-------------------------------------------------|-----------------------|
/// | stopped by us: deadline, or SIGXCPU             | RUN_DEADLINE_EXCEEDED |
/// | stopped by us: cancelled                        | CANCELLED             |
/// | stopped by us: lease lost, worker shut down     | LEASE_LOST            |
/// | stopped by us: its folder was full              | LIMIT_EXCEEDED        |
/// | kTaskOutOfMemory; SIGKILL near the memory limit | OUT_OF_MEMORY         |
/// | SIGSYS                                          | SANDBOX_VIOLATION     |
/// | SIGXFSZ                                         | LIMIT_EXCEEDED        |
/// | SIGBUS, but of generated code                   | WORKER_FAULT          |
/// | kTaskCannotStart, kTaskCannotReport, no start   | WORKER_FAULT          |
/// | kTaskOtherBuild                                 | WORKER_FAULT          |
/// | exit code 0                                     | INTERNAL              |
/// | any other signal or exit code                   | CRASHED               |
v1::Failure failureOfEnd(const ChildEnd& end, const ChildSpec& spec);

/// Of a task that was not done because the program for it is of another build than the worker began with.
v1::Failure otherBuild(std::string message);

}  // namespace tessera::worker
