#include <utility>

#include "proto/support/status_macros.h"
#include "workers/output_names.h"
#include "workers/task/artifact_run.h"
#include "workers/task/simulated_task.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

// Limit on all inline outputs together, since a result must fit in one message.
constexpr size_t kInlineBytes = 1 << 20;

}  // namespace

absl::StatusOr<v1::TaskResult> runExecuteTask(const TaskContext& task) {
  const v1::ExecuteSpec& spec = task.spec().execute();
  TESSERA_ASSIGN_OR_RETURN(const std::string path, task.input(spec.artifact_id()));
  TESSERA_RETURN_IF_ERROR(checkNoDevice(path));
  if (isSimulated(path)) return executeSimulated(task, path, spec);
  TESSERA_ASSIGN_OR_RETURN(auto run, ArtifactRun::prepare(task, spec.artifact_id(), spec.inputs(), spec.threads(), {}));
  const auto& outputs = run->outputs();
  std::vector<FileDescriptor> files(outputs.size());  // only of large outputs
  size_t inline_bytes = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t bytes = run->outputBytes(i).size();
    if (inline_bytes + bytes <= kInlineBytes) {
      inline_bytes += bytes;
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(files[i], task.createOutput(outputFileName(static_cast<int>(i))));
  }

  TESSERA_RETURN_IF_ERROR(filterSystemCalls(Profile::kExecute));
  TESSERA_ASSIGN_OR_RETURN(auto latency_ms, run->run());

  v1::TaskResult result;
  result.mutable_execute()->set_latency_ms(latency_ms);
  for (size_t i = 0; i < outputs.size(); ++i) {
    v1::TensorValue& value = *result.mutable_execute()->add_outputs();
    *value.mutable_spec() = outputs[i];
    const std::string_view bytes = run->outputBytes(i);
    if (!files[i].valid()) {
      value.set_data(bytes.data(), bytes.size());
      continue;
    }
    const std::string name = outputFileName(static_cast<int>(i));  // the worker sets the blob
    TESSERA_RETURN_IF_ERROR(writeAll(files[i].get(), bytes, name));
    result.add_files()->set_name(name);
  }
  // The process ends now; do not spend time on destroying the session.
  (void)run.release();
  return result;
}

}  // namespace tessera::worker
