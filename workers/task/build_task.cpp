#include "compiler/pipeline.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {

absl::StatusOr<v1::TaskResult> runBuildTask(const TaskContext& task) {
  auto path = task.input(task.spec().build().unit().sha256());
  if (!path.ok()) return path.status();
  v1::BuildUnit unit;
  if (absl::Status status = readMessage(*path, unit); !status.ok()) return status;
  auto built = compiler::build(unit);
  if (!built.ok()) return built.status();

  v1::TaskResult result;
  result.mutable_build()->set_object_file("object.pb");
  if (absl::Status status = writeOutput(task, "object.pb", *built, result); !status.ok()) return status;
  return result;
}

}  // namespace tessera::worker
