#pragma once

#include "absl/status/statusor.h"
#include "compiler/driver/pipeline.h"
#include "workers/task/task_context.h"

namespace tessera::worker {

/// The compiler request for a model, with a local file for each blob that the specification names. MISSING_BLOB if one
/// is not among the task's inputs.
absl::StatusOr<compiler::PlanRequest> planRequestFor(const TaskContext& task, const v1::CompileSpec& spec,
                                                     const v1::Target& target);

}  // namespace tessera::worker
