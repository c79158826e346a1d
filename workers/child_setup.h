#pragma once

#include <sys/types.h>

#include "workers/sandbox/isolation.h"
#include "workers/sandbox/limits.h"

/// What a new process makes of itself before its program or its task begins, whether it was executed (spawn.h) or is a
/// fork of a program that has started already (serve_forks.h).
namespace tessera::worker {

/// A new process and, where it has a namespace of processes of its own, the first process there, a child of the worker
/// too. That one ends when it is killed, and not before the other was waited for.
struct Processes {
  pid_t pid = 0;
  pid_t first = 0;
};

/// Arrives at the worker through the pipe `ChildSetup::report` where a step failed. When all went well nothing does:
/// the pipe is closed.
struct ChildReport {
  int error = 0;       ///< errno of the step that failed
  char step[24] = {};  ///< that step
};

struct ChildSetup {
  const char* folder = nullptr;  ///< to work in
  Limits limits;
  int null = -1, output = -1, progress = -1, report = -1;  ///< each at 6 or above
  int known_steps = -1;                                    ///< likewise; -1: none
  /// The parent it must not outlive, as getppid() has it: 0 in a namespace of processes that the parent is not in.
  pid_t worker = 0;
  const Isolation* isolation = nullptr;  ///< its mounts and its user are entered here
};

/// Leads a group of its own, dies with the worker, has no handler and no blocked signal, descriptors 0 (nothing), 1 and
/// 2 (output), 3 (progress), 4 (report, closed by exec), 5 (known steps, if any) and no other, mounts, the working
/// folder, umask 077, the limits and the user. Async-signal-safe. A step that fails is reported and ends the process
/// with kTaskExecFailed.
void setUpChild(const ChildSetup& setup);

/// Has the kernel end this process with its worker, and ends it if that is gone already: a pipe that it reads says so
/// as well. Async-signal-safe.
void dieWith(pid_t worker, int pipe);

/// Reports a step that failed, and ends the process. Async-signal-safe.
[[noreturn]] void giveUp(int report, const char* step, int error);

ChildReport reportOf(const char* step, int error);

}  // namespace tessera::worker
