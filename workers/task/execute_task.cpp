#include <utility>

#include "workers/output_names.h"
#include "workers/task/artifact_run.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

// All inline outputs together: a result must fit into one message.
constexpr size_t kInlineBytes = 1 << 20;

}  // namespace

absl::StatusOr<v1::TaskResult> runExecuteTask(const TaskContext& task) {
  const v1::ExecuteSpec& spec = task.spec().execute();
  auto run = ArtifactRun::prepare(task, spec.artifact_id(), spec.inputs(), spec.threads(), {});
  if (!run.ok()) return run.status();
  const auto& outputs = (*run)->outputs();
  std::vector<FileDescriptor> files(outputs.size());  // of the large ones
  size_t inline_bytes = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t bytes = (*run)->outputBytes(i).size();
    if (inline_bytes + bytes <= kInlineBytes) {
      inline_bytes += bytes;
      continue;
    }
    auto file = task.createOutput(outputFileName(static_cast<int>(i)));
    if (!file.ok()) return file.status();
    files[i] = *std::move(file);
  }

  if (absl::Status status = filterSystemCalls(Profile::kExecute); !status.ok()) return status;
  auto latency_ms = (*run)->run();
  if (!latency_ms.ok()) return latency_ms.status();

  v1::TaskResult result;
  result.mutable_execute()->set_latency_ms(*latency_ms);
  for (size_t i = 0; i < outputs.size(); ++i) {
    v1::TensorValue& value = *result.mutable_execute()->add_outputs();
    *value.mutable_spec() = outputs[i];
    const std::string_view bytes = (*run)->outputBytes(i);
    if (!files[i].valid()) {
      value.set_data(bytes.data(), bytes.size());
      continue;
    }
    const std::string name = outputFileName(static_cast<int>(i));  // the worker fills in the blob
    if (absl::Status status = writeAll(files[i].get(), bytes, name); !status.ok()) return status;
    result.add_files()->set_name(name);
  }
  // The process ends now; taking the session apart first would be wasted work.
  (void)run->release();
  return result;
}

}  // namespace tessera::worker
