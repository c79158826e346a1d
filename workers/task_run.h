#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/v1/task.pb.h"
#include "workers/cancellation.h"
#include "workers/child_process.h"
#include "workers/fork_server.h"
#include "workers/sandbox/measures.h"
#include "workers/scratch.h"
#include "workers/shared_step_cache.h"

namespace tessera::worker {

/// How task processes are started on this worker.
struct TaskRunner {
  std::string binary;
  int64_t default_memory_bytes = 0;  ///< address-space limit of tasks without one
  Milliseconds kill_grace{1000};
  /// Build of `binary` when the worker started (proto/version); other builds run no tasks; empty: any.
  std::string build;
  /// Called when `binary` was replaced by another build; the task was not run.
  std::function<void()> on_other_build;
  std::shared_ptr<ForkServer> forks;  ///< fork server of `binary`; null: execute the program for each task
  SandboxPlan sandbox;
};

/// Parameters of a task process: program and profile, clean environment, limits, deadline.
ChildSpec childSpecFor(const TaskRunner& runner, const v1::TaskSpec& task, const std::string& folder);

/// Runs `task`, whose inputs are in `folder`, as one child process. Returns its result.pb, or the failure that its end
/// amounts to; `usage` is set in either case. The process may use the results in `steps`, and its new results are added
/// after a successful end; null: no cache.
v1::TaskResult runTask(const TaskRunner& runner, const v1::TaskSpec& task, const AttemptFolder& folder,
                       const std::function<void(const v1::Progress&)>& on_progress, Cancellation& attempt,
                       SharedStepCache* steps = nullptr);

}  // namespace tessera::worker
