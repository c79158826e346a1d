#include "workers/task/task_context.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"
#include "proto/support/io_failure.h"
#include "proto/support/status_macros.h"
#include "proto/support/write_all.h"
#include "workers/output_names.h"
#include "workers/progress_stream.h"

namespace tessera::worker {
namespace {

namespace io = google::protobuf::io;

constexpr int kProgressDescriptor = 3;
constexpr int kStepCacheDescriptor = 5;

absl::Status ioError(const std::string& what) { return ioFailure(what, errno); }

absl::Status writeBytes(const TaskContext& task, const std::string& name, const std::string& bytes,
                        v1::TaskResult& result) {
  TESSERA_ASSIGN_OR_RETURN(auto file, task.createOutput(name));
  result.add_files()->set_name(name);
  return writeAll(file.get(), bytes, task.output(name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskContext>> TaskContext::open(const std::string& scratch) {
  std::unique_ptr<TaskContext> task(new TaskContext(scratch));
  // Before any other file is opened, which could get this descriptor number if the worker passes none.
  task->step_cache_ = SharedStepCacheReader::open(kStepCacheDescriptor);
  TESSERA_RETURN_IF_ERROR(readMessage(scratch + "/task.pb", task->spec_));
  const std::string result = scratch + "/result.pb";
  task->result_ = FileDescriptor(::open(result.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!task->result_.valid()) return ioError(result);
  return task;
}

absl::StatusOr<std::string> TaskContext::input(const std::string& sha256) const {
  for (const v1::Digest& digest : spec_.inputs()) {
    if (digest.sha256() == sha256) return absl::StrCat(scratch_, "/in/", sha256);
  }
  v1::Failure failure;
  failure.set_reason(v1::Failure::MISSING_BLOB);
  failure.set_message(absl::StrCat("blob '", sha256, "' is not among the task's inputs"));
  failure.set_found(absl::StrCat(spec_.inputs_size(), " inputs"));
  failure.set_fix("upload the blob before the job that refers to it is created");
  return failureStatus(failure);
}

absl::StatusOr<FileDescriptor> TaskContext::createOutput(const std::string& name) const {
  FileDescriptor file(::open(output(name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return ioError(output(name));
  return file;
}

void TaskContext::progress(const v1::Progress& progress) const {
  // Fails harmlessly without the pipe, in a task started by hand.
  (void)writeAll(kProgressDescriptor, encodeProgress(progress), "progress");
}

absl::Status TaskContext::writeResult(const v1::TaskResult& result) const {
  return writeAll(result_.get(), result.SerializeAsString(), "result.pb");
}

absl::Status writeAll(int fd, std::string_view bytes, const std::string& what) {
  return tessera::writeAll(fd, bytes) ? absl::OkStatus() : ioError(what);
}

absl::Status readMessage(const std::string& path, google::protobuf::Message& message) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ioError(path);
  io::FileInputStream stream(file.get());
  if (message.ParseFromZeroCopyStream(&stream)) return absl::OkStatus();
  return failureStatus(v1::Failure::INTERNAL, absl::StrCat(path, " is not a ", message.GetTypeName()));
}

absl::Status writeOutput(const TaskContext& task, const std::string& name, const google::protobuf::Message& message,
                         v1::TaskResult& result) {
  return writeBytes(task, name, deterministicBytes(message), result);
}

absl::Status encloseOutput(const TaskContext& task, const std::string& name, const google::protobuf::Message& message,
                           v1::TaskResult& result) {
  std::string bytes = deterministicBytes(message);
  auto room = kEnclosedBytesOfResult;
  for (const v1::OutputFile& file : result.files()) room -= static_cast<int64_t>(file.data().size());
  // An empty `data` means that the content is in a file, so empty content cannot be enclosed.
  if (bytes.empty() || static_cast<int64_t>(bytes.size()) > std::min(room, kMaxEnclosedBytes)) {
    return writeBytes(task, name, bytes, result);
  }
  v1::OutputFile& file = *result.add_files();
  file.set_name(name);
  file.set_data(std::move(bytes));
  return absl::OkStatus();
}

}  // namespace tessera::worker
