#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/v1/task.pb.h"
#include "workers/cancellation.h"
#include "workers/child_process.h"
#include "workers/fork_server.h"
#include "workers/known_steps.h"
#include "workers/sandbox/measures.h"
#include "workers/scratch.h"

namespace tessera::worker {

/// How the task binary is started on this worker.
struct TaskRunner {
  std::string binary;
  int64_t default_memory_bytes = 0;  ///< address space of a task that states no limit
  Milliseconds kill_grace{1000};
  std::string build;  ///< of `binary` when the worker began (proto/version): tasks run by no other; empty: any
  /// Called when `binary` turns out to have been replaced by another build, in which case the task was not done.
  std::function<void()> on_other_build;
  std::shared_ptr<ForkServer> forks;  ///< of `binary`; null: it is executed for every task
  SandboxPlan sandbox;
};

/// What a task process is started with: program and profile, clean environment, limits, deadline.
ChildSpec childSpecFor(const TaskRunner& runner, const v1::TaskSpec& task, const std::string& folder);

/// Runs `task`, whose inputs are in `folder`, as one child process, and returns what it left in
/// result.pb, or the failure that its end amounts to. `usage` is filled in either case. What `steps` knows the process
/// may use, and what it made of more is added when it has ended well; null: it does all anew.
v1::TaskResult runTask(const TaskRunner& runner, const v1::TaskSpec& task, const AttemptFolder& folder,
                       const std::function<void(const v1::Progress&)>& on_progress, Cancellation& attempt,
                       KnownSteps* steps = nullptr);

}  // namespace tessera::worker
