#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

/// Isolation of a task's process, set up by its parent with the parent's privileges before the task starts. The task
/// then drops the remaining privileges itself (sandbox.h).
namespace tessera::worker {

struct Isolation {
  bool namespaces = false;      ///< own namespaces for network, System V IPC, host name, mounts and processes
  bool user_namespace = false;  ///< and for users, which enables the other namespaces for a worker that is not root
  int64_t uid = -1, gid = -1;   ///< user and group of the process; -1: those of the worker
  std::string folder;           ///< with namespaces: the only writable folder
};

/// A failed step; `name` is null if all succeeded.
struct FailedStep {
  const char* name = nullptr;
  int error = 0;
};

/// Moves the calling process, which must be single-threaded, into its own namespaces, and its future children into a
/// PID namespace. The first child is the init process of that namespace: when it ends, all others are killed.
FailedStep enterNamespaces(const Isolation& isolation);

/// In such a process: makes all mounts read-only except the folder, and mounts /proc of its own PID namespace. The
/// working folder keeps referring to the old mount; enter a folder within `folder` again.
FailedStep enterMounts(const Isolation& isolation);

/// Changes to the isolation's user without supplementary groups. Clears the parent-death signal.
FailedStep becomeUser(const Isolation& isolation);

/// Tries all of it in a short-lived process. FAILED_PRECONDITION names the step that fails on this machine.
absl::Status testIsolation(const Isolation& isolation);

}  // namespace tessera::worker
