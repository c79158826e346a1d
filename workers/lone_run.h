#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/task_run.h"

namespace tessera::worker {

struct LoneRunOptions {
  std::string binary;  ///< tessera-task
  SandboxWishes sandbox;
  std::vector<std::string> required;  ///< measures without which nothing runs (checkMeasures)
  int64_t memory_bytes = 0;           ///< address space of the task; 0: what the machine has
};

/// The sandbox of a worker's tasks without a worker: for the user of a file that others have made. Each run is a
/// process of its own that begins with nothing but its inputs; what it leaves is checked like that of any task.
class LoneRun {
 public:
  /// Before the first thread of this process. NOT_FOUND without the task program, ABORTED where it is of another build
  /// than this one; else as planSandbox() and checkMeasures(). Its folder, in the system's for temporary files, goes
  /// with it.
  static absl::StatusOr<std::unique_ptr<LoneRun>> open(const LoneRunOptions& options);
  ~LoneRun();
  LoneRun(const LoneRun&) = delete;
  LoneRun& operator=(const LoneRun&) = delete;

  const Measures& measures() const { return runner_.sandbox.measures; }

  /// What a task may have, and so what goes in and comes out.
  int64_t memoryBytes() const { return runner_.default_memory_bytes; }

  /// Copies the file, which is what tasks run then, whatever becomes of it; the digest is its name.
  absl::StatusOr<v1::Digest> takeArtifact(const std::string& path);

  /// Runs an EXECUTE or PROFILE task. `files` are its inputs by digest beside the artifact. Outputs are inline in the
  /// result, with as many bytes as their types say. A failure of the task is in the result; an error is this process's.
  absl::StatusOr<v1::TaskResult> run(v1::TaskSpec task, const std::map<std::string, std::string>& files,
                                     Cancellation& cancellation);

 private:
  LoneRun() = default;

  std::string root_;
  std::unique_ptr<Scratch> scratch_;
  TaskRunner runner_;
  v1::Digest artifact_;
};

}  // namespace tessera::worker
