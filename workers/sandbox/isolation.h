#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

/// What a task's process is put into before its task begins, by whoever starts it and with that one's rights. The task
/// itself then gives up the rights that are left (sandbox.h).
namespace tessera::worker {

struct Isolation {
  bool namespaces = false;      ///< network, System V IPC, host name, mounts and processes of its own
  bool user_namespace = false;  ///< and users: what gives a worker that is not root the others
  int64_t uid = -1, gid = -1;   ///< that the process has; -1: the worker's
  std::string folder;           ///< with namespaces: the only one that is not read-only
};

/// A step that did not work; `name` is null where all did.
struct FailedStep {
  const char* name = nullptr;
  int error = 0;
};

/// Puts the calling process, which has one thread, into namespaces of its own, and whatever it forks from now on into a
/// namespace of processes, of which the first fork is the first process: when that ends, all others are killed.
FailedStep enterNamespaces(const Isolation& isolation);

/// Of a process within these: its mounts are read-only but for the folder, and /proc shows its own namespace. Forgets
/// no working folder: one within the folder is to be entered anew.
FailedStep enterMounts(const Isolation& isolation);

/// Becomes the isolation's user, in no further group. Clears the signal of the parent's death.
FailedStep becomeUser(const Isolation& isolation);

/// Does all of it in a process that ends at once. FAILED_PRECONDITION names the step that fails on this machine.
absl::Status tryIsolation(const Isolation& isolation);

}  // namespace tessera::worker
