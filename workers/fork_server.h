#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "workers/child_process.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

/// A task program that has started and linked its libraries, and forks a process for each task (serve_forks.h): this
/// takes a millisecond instead of the 50 that starting a compiler takes. It holds no data of any task. It is started on
/// first use and restarted if it ended. Replacing the program file does not affect a running one; if the new file is of
/// another build, it is not started. Thread-safe.
class ForkServer {
 public:
  /// `build` is the required build of `binary` (proto/version); empty: any. `many`: expect tasks for the lifetime of
  /// the worker, so that extra memory and a few tenths of a second at the start are worth a cheaper fork
  /// (huge_pages.h).
  explicit ForkServer(std::string binary, std::string build = "", bool many = false);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Starts the program and waits until it is ready, so that no task's time includes this. FAILED_PRECONDITION: it
  /// cannot be executed or does not get ready. ABORTED: it is of another build.
  absl::Status start();

  /// Like spawnGroup() (spawn.h) for `spec`, whose program must be `binary`. Makes this process adopt orphans. The
  /// child dies with this process. FAILED_PRECONDITION names the step that failed before there was a child; ABORTED as
  /// in start(); UNAVAILABLE: the program does not answer, also after a restart.
  absl::StatusOr<Spawned> fork(const ChildSpec& spec, int output, int progress);

  /// Process id of the program; -1 before it is started.
  pid_t pid() const;

 private:
  absl::Status startLocked();
  void stop();
  absl::StatusOr<Spawned> ask(const ChildSpec& spec, int output, int progress);

  const std::string binary_;
  const std::string build_;
  const bool many_;
  mutable std::mutex mutex_;
  pid_t pid_ = -1;
  FileDescriptor socket_;
};

}  // namespace tessera::worker
