#pragma once

#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "compiler/step_cache/step_cache.h"
#include "workers/task/task_context.h"

namespace tessera::worker {

/// Results of steps within a task: those that the worker knows, and those that it is handed when the task is done.
/// Failures to keep one are none of the task's.
class TaskSteps : public compiler::StepCache {
 public:
  explicit TaskSteps(const TaskContext& task) : task_(task) {}

  /// What to give to the compiler: null where the worker knows nothing and wants nothing.
  compiler::StepCache* cache() { return task_.knownSteps() != nullptr ? this : nullptr; }

  std::optional<std::string> find(const std::string& key) override;
  void keep(const std::string& key, std::string result) override;

  /// Hands in what was kept, and what was found where it would soon be given up.
  absl::Status handIn() const;

 private:
  const TaskContext& task_;
  std::mutex mutex_;
  std::string made_;  // encoded
};

}  // namespace tessera::worker
