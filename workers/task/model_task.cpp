#include "workers/task/model_task.h"

namespace tessera::worker {

absl::StatusOr<compiler::PlanRequest> planRequestFor(const TaskContext& task, const v1::CompileSpec& spec,
                                                     const v1::Target& target) {
  compiler::PlanRequest request;
  auto model = task.input(spec.model().sha256());
  if (!model.ok()) return model.status();
  request.model_path = *model;
  request.spec = spec;
  request.target = target;
  for (const auto& [location, digest] : spec.external_data()) {
    auto path = task.input(digest.sha256());
    if (!path.ok()) return path.status();
    request.external_data[location] = *path;
  }
  return request;
}

}  // namespace tessera::worker
