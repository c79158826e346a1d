#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/task_run.h"

namespace tessera::worker {

struct StandaloneSandboxOptions {
  std::string binary;  ///< path of tessera-task
  SandboxOptions sandbox;
  std::vector<std::string> required;  ///< measures that must be in force (checkMeasures)
  int64_t memory_bytes = 0;           ///< address space of the task; 0: the machine's memory
};

/// Runs artifacts of untrusted origin in the sandbox of a worker's tasks, and plans models there, without a worker or
/// service. Each run is a separate process that has access only to its inputs; its outputs are checked like those of
/// any task.
class StandaloneSandbox {
 public:
  /// Call before this process starts a thread. NOT_FOUND: there is no task program. ABORTED: it is of another build
  /// than this program. Other errors as for planSandbox() and checkMeasures(). The temporary folder is deleted with the
  /// object.
  static absl::StatusOr<std::unique_ptr<StandaloneSandbox>> open(const StandaloneSandboxOptions& options);
  ~StandaloneSandbox();
  StandaloneSandbox(const StandaloneSandbox&) = delete;
  StandaloneSandbox& operator=(const StandaloneSandbox&) = delete;

  const Measures& measures() const { return runner_.sandbox.measures; }

  /// Memory limit of a task, which also bounds its inputs and outputs.
  int64_t memoryBytes() const { return runner_.default_memory_bytes; }

  /// Copies the file; tasks run the copy, so later changes of the file have no effect. Returns its digest, by which
  /// tasks name it.
  absl::StatusOr<v1::Digest> takeArtifact(const std::string& path);

  /// Runs an EXECUTE or PROFILE task. `files` are its inputs by digest, in addition to the artifact. Outputs are inline
  /// in the result and have the sizes of their types. A failure of the task is in the result; an error status is a
  /// failure of this process.
  absl::StatusOr<v1::TaskResult> run(v1::TaskSpec task, const std::map<std::string, std::string>& files,
                                     Cancellation& cancellation);

  /// Runs a PLAN task on copies of local files: `files` maps the digests that the task names to their paths. A digest
  /// only names a copy; it need not be that of the content. Passes the path of the task's `out` folder to `take` before
  /// it is deleted. A failure of the task is in the result.
  absl::StatusOr<v1::TaskResult> plan(v1::TaskSpec task, const std::map<std::string, std::string>& files,
                                      Cancellation& cancellation,
                                      const std::function<void(const v1::Progress&)>& on_progress,
                                      const std::function<absl::Status(const std::string& outputs)>& take);

 private:
  StandaloneSandbox() = default;

  std::string root_;
  std::unique_ptr<Scratch> scratch_;
  TaskRunner runner_;
  v1::Digest artifact_;
};

}  // namespace tessera::worker
