#pragma once

#include <sys/types.h>

#include "workers/sandbox/limits.h"

/// What a new process makes of itself before its program or its task begins, whether it was executed (spawn.h) or is a
/// fork of a program that has started already (serve_forks.h).
namespace tessera::worker {

/// Arrives at the worker through the pipe `ChildSetup::report`. An executed program sends nothing when all went well:
/// exec closes the pipe.
struct ChildReport {
  pid_t pid = 0;
  int error = 0;       ///< errno of the step that failed, or 0
  char step[24] = {};  ///< that step
};

struct ChildSetup {
  const char* folder = nullptr;  ///< to work in
  Limits limits;
  int null = -1, output = -1, progress = -1, report = -1;  ///< each at 5 or above
  pid_t worker = 0;                                        ///< the parent it must not outlive
};

/// Leads a group of its own, dies with the worker, has no handler and no blocked signal, descriptors 0 (nothing), 1 and
/// 2 (output), 3 (progress), 4 (report, closed by exec) and no other, the working folder, umask 077 and the limits.
/// Async-signal-safe. A step that fails is reported and ends the process with kTaskExecFailed.
void setUpChild(const ChildSetup& setup);

/// Reports a step that failed, and ends the process. Async-signal-safe.
[[noreturn]] void giveUp(int report, const char* step, int error);

}  // namespace tessera::worker
