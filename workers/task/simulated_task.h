#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/task.pb.h"
#include "workers/task/task_context.h"

/// Execute and profile tasks on artifacts for described chips: the program runs on the simulator, without native code.
namespace tessera::worker {

/// Whether the artifact at `path` is for a described chip; false for files that are no artifacts.
bool isSimulated(const std::string& path);

/// INCOMPATIBLE_HOST if the artifact at `path` is for an OpenCL device: tasks have none.
absl::Status checkNoDevice(const std::string& path);

/// Runs the program once. Errors name the input, or the place of the artifact, at fault.
absl::StatusOr<v1::TaskResult> executeSimulated(const TaskContext& task, const std::string& path,
                                                const v1::ExecuteSpec& spec);

/// Computes the time of one run, which does not depend on the inputs' values unless the model has loops whose trip
/// counts it computes: then it runs on values from the seed.
absl::StatusOr<v1::TaskResult> profileSimulated(const TaskContext& task, const std::string& path,
                                                const v1::ProfileSpec& spec);

}  // namespace tessera::worker
