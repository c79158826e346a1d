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

/// Why the supervisor ended a child itself.
enum class StopReason {
  kNone,
  kCancelled,  ///< the job was cancelled
  kLost,       ///< the lease was lost
  kDeadline,   ///< the run deadline passed
  kShutdown,   ///< the worker itself stops at once
  kFull,       ///< its folder holds more than it may
};

struct ChildSpec {
  std::vector<std::string> argv;         ///< argv[0] is the program's path
  std::vector<std::string> environment;  ///< "NAME=value"; nothing is inherited
  std::string working_folder;
  Limits limits;
  Isolation isolation;
  std::string scratch;            ///< what is in this folder, but for in/, is measured while it runs ...
  int64_t scratch_bytes = 0;      ///< ... and may be so much; 0: any
  int known_steps = -1;           ///< a descriptor of this process that the child has as 5 (known_steps.h); -1: none
  bool generated_code = false;    ///< runs code that a model was made into, and so may end in any way it likes
  Milliseconds run_timeout{0};    ///< 0 = none
  Milliseconds kill_grace{1000};  ///< between SIGTERM and SIGKILL
};

/// How a child ended.
struct ChildEnd {
  std::string not_started;  ///< the step that failed before its program or its task began; empty: it began
  bool exited = false;      ///< by itself, with exit_code; otherwise by `signal`
  int exit_code = 0;
  int signal = 0;
  StopReason stopped = StopReason::kNone;  ///< the first reason for which it was told to stop
  double wall_ms = 0;
  double cpu_ms = 0;  ///< user and system, with descendants that it waited for
  int64_t peak_rss_bytes = 0;
  std::string stderr_tail;  ///< last 4 KiB of what it printed (stdout and stderr)
};

/// A child that gets ready on its own: whoever brings it into being does not wait for that, which may never be.
struct Spawned {
  Processes processes;
  FileDescriptor report;  ///< a ChildReport or, as soon as its program or its task begins, the end
};

/// Brings a child of this process into being, with `output` as its descriptors 1 and 2 and `progress` as 3.
using Spawn = std::function<absl::StatusOr<Spawned>(const ChildSpec& spec, int output, int progress)>;

/// One child process in a process group of its own. Descriptors: 0 is /dev/null, 1 and 2 are kept as the
/// tail, 3 is a pipe of which every chunk goes to `on_progress`; all others are closed. The kernel kills
/// the child when the thread that started it ends (a forked one: when the process ends), so start and wait
/// belong to one thread.
class ChildProcess {
 public:
  using ProgressSink = std::function<void(std::string_view bytes)>;

  /// Starts the program: executes it, or as `spawn` says. What fails in the new process, such as a program that cannot
  /// be executed, is told by wait().
  static absl::StatusOr<std::unique_ptr<ChildProcess>> start(const ChildSpec& spec, ProgressSink on_progress,
                                                             const Spawn& spawn = {});

  /// Kills and reaps what is left of the group.
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until the child has ended, then kills and reaps the rest of its group. Returns within
  /// `kill_grace` plus scheduling delays of a stop. Call it once, on the thread that called start().
  ChildEnd wait();

  /// Asks wait() to end the group: SIGTERM, then SIGKILL. From any thread, any number of times; the first
  /// reason counts.
  void stop(StopReason reason);

  pid_t pid() const { return pid_; }

 private:
  ChildProcess(ChildSpec spec, ProgressSink on_progress)
      : spec_(std::move(spec)), on_progress_(std::move(on_progress)) {}

  using Clock = std::chrono::steady_clock;
  absl::Status spawn(const Spawn& spawn);
  void pollUntilExit(ChildEnd& end);
  bool isFull() const;
  void drainOutput(std::string& tail);
  void reap(ChildEnd& end);
  void endGroup();

  const ChildSpec spec_;
  const ProgressSink on_progress_;
  pid_t pid_ = -1;
  pid_t first_ = 0;  // of its namespace of processes; 0: it has none
  bool reaped_ = false;
  Clock::time_point started_;
  FileDescriptor process_;  // pidfd: readable once the child has ended
  FileDescriptor output_;   // read ends of the pipes
  FileDescriptor progress_;
  FileDescriptor report_;
  FileDescriptor wake_;  // eventfd, written by stop()
  std::atomic<StopReason> stop_reason_{StopReason::kNone};
};

/// Makes the calling process the parent of orphaned grandchildren, so that none is left as a zombie of
/// somebody else. Once, at the start of the worker.
void adoptOrphans();

}  // namespace tessera::worker
