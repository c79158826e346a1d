#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/child_setup.h"
#include "workers/file_descriptor.h"
#include "workers/sandbox/isolation.h"
#include "workers/sandbox/limits.h"

namespace tessera::worker {

using Milliseconds = std::chrono::milliseconds;

/// Why the supervisor stopped a child.
enum class StopReason {
  kNone,
  kCancelled,  ///< the job was cancelled
  kLeaseLost,  ///< the lease was lost
  kDeadline,   ///< the run deadline passed
  kShutdown,   ///< the worker stops at once
  kDiskQuota,  ///< its folder exceeds its size limit
};

struct ChildSpec {
  std::vector<std::string> argv;         ///< argv[0] is the program's path
  std::vector<std::string> environment;  ///< "NAME=value"; nothing is inherited
  std::string working_folder;
  Limits limits;
  Isolation isolation;
  std::string scratch;        ///< folder whose size is monitored during the run, without in/
  int64_t scratch_bytes = 0;  ///< size limit of that folder; 0: none
  int step_cache =
      -1;  ///< descriptor of the shared step cache (shared_step_cache.h), descriptor 5 in the child; -1: none
  bool generated_code = false;    ///< the child runs compiled models, so any kind of end is possible
  Milliseconds run_timeout{0};    ///< 0 = none
  Milliseconds kill_grace{1000};  ///< time between SIGTERM and SIGKILL
};

/// Describes how a child ended.
struct ChildExit {
  std::string not_started;  ///< the step that failed before the program or task started; empty: it started
  bool exited = false;      ///< by itself, with exit_code; otherwise by `signal`
  int exit_code = 0;
  int signal = 0;
  StopReason stopped = StopReason::kNone;  ///< the first reason for which it was asked to stop
  double wall_ms = 0;
  double cpu_ms = 0;  ///< user and system time, including descendants it waited for
  int64_t peak_rss_bytes = 0;
  std::string stderr_tail;  ///< last 4 KiB of stdout and stderr
};

/// A new child that is still setting itself up. Its creator does not wait for that, because it may never finish.
struct Spawned {
  Processes processes;
  /// Yields a ChildReport if the setup fails, otherwise end-of-file when the program or task starts.
  FileDescriptor report;
};

/// Creates a child of this process with `output` as descriptors 1 and 2 and `progress` as 3.
using Spawn = std::function<absl::StatusOr<Spawned>(const ChildSpec& spec, int output, int progress)>;

/// A child process in its own process group. Descriptor 0 is /dev/null; the last output of 1 and 2 is kept; 3 is a pipe
/// whose data are passed to `on_progress`; all others are closed. The kernel kills the child when the thread that
/// started it ends (a forked one: when the process ends), so one thread must start it and wait for it.
class ChildProcess {
 public:
  using ProgressSink = std::function<void(std::string_view bytes)>;

  /// Starts the program, by executing it or with `spawn`. Failures in the new process, such as a program that cannot be
  /// executed, are reported by wait().
  static absl::StatusOr<std::unique_ptr<ChildProcess>> start(const ChildSpec& spec, ProgressSink on_progress,
                                                             const Spawn& spawn = {});

  /// Kills and reaps the remaining processes of the group.
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until the child has ended, then kills and reaps the rest of its group. After a stop it returns within
  /// `kill_grace` plus scheduling delays. Call it once, on the thread that called start().
  ChildExit wait();

  /// Makes wait() end the group: SIGTERM, then SIGKILL. May be called from any thread and repeatedly; only the first
  /// reason is kept.
  void stop(StopReason reason);

  pid_t pid() const { return pid_; }

 private:
  ChildProcess(ChildSpec spec, ProgressSink on_progress)
      : spec_(std::move(spec)), on_progress_(std::move(on_progress)) {}

  using Clock = std::chrono::steady_clock;
  absl::Status spawn(const Spawn& spawn);
  void pollUntilExit(ChildExit& end);
  bool isFull() const;
  void drainOutput(std::string& tail);
  void reap(ChildExit& end);
  void endGroup();

  const ChildSpec spec_;
  const ProgressSink on_progress_;
  pid_t pid_ = -1;
  pid_t first_ = 0;  // first process of its PID namespace; 0: no namespace
  bool reaped_ = false;
  Clock::time_point started_;
  FileDescriptor process_;  // pidfd: readable once the child has ended
  FileDescriptor output_;   // read ends of the pipes
  FileDescriptor progress_;
  FileDescriptor report_;
  FileDescriptor wake_;  // eventfd, written by stop()
  std::atomic<StopReason> stop_reason_{StopReason::kNone};
};

/// Makes the calling process the reaper of orphaned descendants, so that none remains as a zombie. Call once, at the
/// start of the worker.
void adoptOrphans();

}  // namespace tessera::worker
