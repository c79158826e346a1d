#pragma once

#include <sys/types.h>

#include "workers/sandbox/isolation.h"
#include "workers/sandbox/limits.h"

/// Setup of a new process before its program or task starts, whether it was executed (spawn.h) or forked from a started
/// program (serve_forks.h).
namespace tessera::worker {

/// A new process and, if it has its own PID namespace, the first process of that namespace, which is a child of the
/// worker too. The first process must be killed, and can be reaped only after the other one.
struct Processes {
  pid_t pid = 0;
  pid_t first = 0;
};

/// Sent to the worker through the pipe `ChildSetup::report` if a step fails. On success the pipe is closed without
/// data.
struct ChildReport {
  int error = 0;       ///< errno of the failed step
  char step[24] = {};  ///< name of the failed step
};

struct ChildSetup {
  const char* folder = nullptr;  ///< working folder
  Limits limits;
  int null = -1, output = -1, progress = -1, report = -1;  ///< each must be 6 or above
  int step_cache = -1;                                     ///< likewise; -1: none
  /// The parent that the process must not outlive, as returned by getppid(): 0 in a PID namespace without the parent.
  pid_t worker = 0;
  const Isolation* isolation = nullptr;  ///< mounts and user to enter
};

/// Sets up the process: own process group, death with the worker, default signal handlers and no blocked signals.
/// Descriptors: 0 (/dev/null), 1 and 2 (output), 3 (progress), 4 (report, closed by exec), 5 (shared step cache, if
/// any), no others. Then mounts, working folder, umask 077, limits and user. Async-signal-safe. A failed step is
/// reported and ends the process with kTaskExecFailed.
void setUpChild(const ChildSetup& setup);

/// Makes the kernel kill this process when its worker ends. Ends it at once if the worker is gone, which a closed pipe
/// also indicates. Async-signal-safe.
void dieWithParent(pid_t worker, int pipe);

/// Reports a failed step and exits. Async-signal-safe.
[[noreturn]] void giveUp(int report, const char* step, int error);

ChildReport reportOf(const char* step, int error);

}  // namespace tessera::worker
