#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/task.pb.h"
#include "workers/file_descriptor.h"
#include "workers/known_steps.h"

namespace tessera::worker {

/// What a kind of task is given: its scratch folder and spec, and where results go. Descriptors are open
/// before the sandbox closes the file system.
class TaskContext {
 public:
  /// Reads `scratch`/task.pb and opens result.pb, which must not exist yet.
  static absl::StatusOr<std::unique_ptr<TaskContext>> open(const std::string& scratch);

  const v1::TaskSpec& spec() const { return spec_; }
  const std::string& scratch() const { return scratch_; }

  /// Path of an input blob. MISSING_BLOB when the digest was not among the task's inputs.
  absl::StatusOr<std::string> input(const std::string& sha256) const;
  /// Path of a file to make; its name goes into TaskResult.files.
  std::string output(const std::string& name) const { return scratch_ + "/out/" + name; }
  /// Creates an output file for writing after the sandbox has been entered.
  absl::StatusOr<FileDescriptor> createOutput(const std::string& name) const;

  /// What earlier attempts on this worker made of steps of the compiler; null: all is to be done anew.
  const KnownStepsReader* knownSteps() const { return known_steps_.get(); }

  /// Tells the worker how far the task is. Never blocks for long and never fails: progress is for display.
  void progress(const v1::Progress& progress) const;

  /// Writes the result. The worker reads it only when the process then exits with 0, so a partial one
  /// after a crash is never taken for a whole one.
  absl::Status writeResult(const v1::TaskResult& result) const;

 private:
  explicit TaskContext(std::string scratch) : scratch_(std::move(scratch)) {}

  const std::string scratch_;
  v1::TaskSpec spec_;
  FileDescriptor result_;
  std::unique_ptr<KnownStepsReader> known_steps_;
};

/// Writes all of `bytes`; an error names `what`.
absl::Status writeAll(int fd, std::string_view bytes, const std::string& what);

/// Reads a message that another task wrote; INTERNAL when it cannot be parsed.
absl::Status readMessage(const std::string& path, google::protobuf::Message& message);

/// Writes a message as an output file, equal messages as equal bytes, and lists it in `result`.
absl::Status writeOutput(const TaskContext& task, const std::string& name, const google::protobuf::Message& message,
                         v1::TaskResult& result);

/// The same, but within `result` where it is small enough: for what no later task reads from this worker's cache.
absl::Status encloseOutput(const TaskContext& task, const std::string& name, const google::protobuf::Message& message,
                           v1::TaskResult& result);

}  // namespace tessera::worker
