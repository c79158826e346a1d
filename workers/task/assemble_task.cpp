#include "compiler/driver/pipeline.h"
#include "proto/support/status_macros.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

/// Weights of at least this size are not copied into the artifact: the store composes it from them and the bytes
/// around.
constexpr int64_t kMinSharedWeightsBytes = int64_t{16} << 20;
constexpr char kBefore[] = "artifact.before";
constexpr char kBehind[] = "artifact.behind";

}  // namespace

absl::StatusOr<v1::TaskResult> runAssembleTask(const TaskContext& task) {
  const v1::AssembleTask& spec = task.spec().assemble();
  compiler::AssembleRequest request;
  request.name = spec.name();
  request.artifact_path = task.output("artifact.tsra");
  TESSERA_ASSIGN_OR_RETURN(auto plan, task.input(spec.plan().sha256()));
  TESSERA_RETURN_IF_ERROR(readMessage(plan, request.plan));
  if (spec.has_weights()) {
    TESSERA_ASSIGN_OR_RETURN(auto weights, task.input(spec.weights().sha256()));
    request.weights_path = weights;
    request.weights_sha256 = spec.weights().sha256();
    // Large weights are a blob of their own already: the artifact is stored as what precedes them, that blob, and what
    // follows, so artifacts of several targets share one copy.
    if (spec.weights().size_bytes() >= kMinSharedWeightsBytes) {
      request.artifact_path = task.output(kBefore);
      request.after_weights_path = task.output(kBehind);
    }
  }
  for (const v1::Digest& digest : spec.objects()) {
    TESSERA_ASSIGN_OR_RETURN(auto path, task.input(digest.sha256()));
    request.objects.emplace_back();
    TESSERA_RETURN_IF_ERROR(readMessage(path, request.objects.back()));
  }

  TESSERA_ASSIGN_OR_RETURN(auto manifest, compiler::assemble(request));
  v1::TaskResult result;
  result.mutable_assemble()->set_artifact_file("artifact.tsra");
  *result.mutable_assemble()->mutable_manifest() = std::move(manifest);
  v1::OutputFile& artifact = *result.add_files();
  artifact.set_name("artifact.tsra");
  if (request.after_weights_path.empty()) return result;
  artifact.add_parts()->set_file(kBefore);
  artifact.add_parts()->set_input(spec.weights().sha256());
  artifact.add_parts()->set_file(kBehind);
  return result;
}

}  // namespace tessera::worker
