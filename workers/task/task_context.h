#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/task.pb.h"
#include "workers/file_descriptor.h"
#include "workers/shared_step_cache.h"

namespace tessera::worker {

/// Input and output of a task: its scratch folder, its spec and the destination of results. Descriptors are opened
/// before the sandbox blocks the file system.
class TaskContext {
 public:
  /// Reads `scratch`/task.pb and creates result.pb, which must not exist.
  static absl::StatusOr<std::unique_ptr<TaskContext>> open(const std::string& scratch);

  const v1::TaskSpec& spec() const { return spec_; }
  const std::string& scratch() const { return scratch_; }

  /// Path of an input blob. MISSING_BLOB if the digest is not among the task's inputs.
  absl::StatusOr<std::string> input(const std::string& sha256) const;
  /// Path of an output file to create; add its name to TaskResult.files.
  std::string output(const std::string& name) const { return scratch_ + "/out/" + name; }
  /// Creates an output file that can be written after the sandbox was entered.
  absl::StatusOr<FileDescriptor> createOutput(const std::string& name) const;

  /// Cached results of compiler steps of earlier attempts on this worker; null: no cache.
  const SharedStepCacheReader* stepCache() const { return step_cache_.get(); }

  /// Reports progress to the worker. Never blocks for long and never fails, since progress is only for display.
  void progress(const v1::Progress& progress) const;

  /// Writes the result. The worker reads it only if the process exits with 0, so a partial result of a crashed process
  /// is never used.
  absl::Status writeResult(const v1::TaskResult& result) const;

 private:
  explicit TaskContext(std::string scratch) : scratch_(std::move(scratch)) {}

  const std::string scratch_;
  v1::TaskSpec spec_;
  FileDescriptor result_;
  std::unique_ptr<SharedStepCacheReader> step_cache_;
};

/// Writes all bytes; errors name `what`.
absl::Status writeAll(int fd, std::string_view bytes, const std::string& what);

/// Reads a message that another task wrote; INTERNAL if it cannot be parsed.
absl::Status readMessage(const std::string& path, google::protobuf::Message& message);

/// Writes a message to an output file, deterministically, and lists the file in `result`.
absl::Status writeOutput(const TaskContext& task, const std::string& name, const google::protobuf::Message& message,
                         v1::TaskResult& result);

/// Likewise, but inlines it in `result` if it is small; for files that no later task reads from this worker's cache.
absl::Status encloseOutput(const TaskContext& task, const std::string& name, const google::protobuf::Message& message,
                           v1::TaskResult& result);

}  // namespace tessera::worker
