#pragma once

#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "compiler/step_cache/step_cache.h"
#include "workers/task/task_context.h"

namespace tessera::worker {

/// Cache of compiler steps within a task: looks up the worker's results, and collects new ones for the worker. A
/// failure to store one does not fail the task.
class TaskSteps : public compiler::StepCache {
 public:
  explicit TaskSteps(const TaskContext& task) : task_(task) {}

  /// The cache for the compiler; null if the worker has none.
  compiler::StepCache* cache() { return task_.stepCache() != nullptr ? this : nullptr; }

  std::optional<std::string> find(const std::string& key) override;
  void keep(const std::string& key, std::string result) override;

  /// Returns the collected results to the worker, and those found in its older half.
  absl::Status handIn() const;

 private:
  const TaskContext& task_;
  std::mutex mutex_;
  std::string made_;  // encoded results
};

}  // namespace tessera::worker
