#pragma once

#include "absl/status/statusor.h"
#include "compiler/driver/pipeline.h"
#include "workers/task/task_context.h"

namespace tessera::worker {

/// What the compiler is asked about a model, with every blob that the specification names as a local file.
/// MISSING_BLOB when one is not among the task's inputs.
absl::StatusOr<compiler::PlanRequest> planRequestFor(const TaskContext& task, const v1::CompileSpec& spec,
                                                     const v1::Target& target);

}  // namespace tessera::worker
