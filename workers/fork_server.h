#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "workers/child_process.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {

/// A task program that has started and linked its libraries, and becomes one more process for each task
/// (serve_forks.h): a millisecond instead of the 50 that starting a compiler takes. It holds nothing of any task.
/// It is started when first asked, again when it has ended, and is not affected by a program that is replaced
/// meanwhile; one that was replaced by another build is not started again. Thread-safe.
class ForkServer {
 public:
  /// `build` is the one that `binary` must be of (proto/version); empty: any.
  /// `many`: tasks will come as long as the worker lives, and it is worth memory and a start of some tenths of a second
  /// that each takes less (huge_pages.h).
  explicit ForkServer(std::string binary, std::string build = "", bool many = false);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Starts it now and waits until it is ready, so that no task's time passes meanwhile. FAILED_PRECONDITION when it
  /// cannot be executed or does not get ready, ABORTED when it is of another build.
  absl::Status start();

  /// As spawnGroup (spawn.h) with `spec`'s program, which must be `binary`. Makes this process adopt orphans. The child
  /// dies with this process. FAILED_PRECONDITION with the step that failed before there was a child; ABORTED as
  /// start(); UNAVAILABLE when the program, started anew, does not answer either.
  absl::StatusOr<Spawned> fork(const ChildSpec& spec, int output, int progress);

  /// Of the program that waits; -1 before it is started.
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
