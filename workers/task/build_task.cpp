#include "compiler/driver/pipeline.h"
#include "proto/support/status_macros.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {

absl::StatusOr<v1::TaskResult> runBuildTask(const TaskContext& task) {
  TESSERA_ASSIGN_OR_RETURN(auto path, task.input(task.spec().build().unit().sha256()));
  // A search sends its units with the trial they belong to, and gets the object back with it.
  const bool candidate = task.spec().build().candidate();
  v1::CandidateUnit tried;
  v1::BuildUnit& unit = *tried.mutable_unit();
  if (absl::Status status = readMessage(path, candidate ? static_cast<google::protobuf::Message&>(tried) : unit);
      !status.ok())
    return status;
  TESSERA_ASSIGN_OR_RETURN(auto built, compiler::build(unit));

  v1::TaskResult result;
  result.mutable_build()->set_object_file("object.pb");
  const auto write = [&](const google::protobuf::Message& file) {
    return writeOutput(task, "object.pb", file, result);
  };
  absl::Status written;
  if (candidate) {
    v1::CandidateObject object;
    *object.mutable_object() = std::move(built);
    object.set_trial(tried.trial());
    written = write(object);
  } else {
    written = write(built);
  }
  if (!written.ok()) return written;
  return result;
}

}  // namespace tessera::worker
