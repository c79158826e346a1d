#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// A compile action's way: PLAN, then one BUILD for each distinct unit without an object, then ASSEMBLE. A small model
/// is built and assembled in the attempt that plans it; after a crash there the next attempt plans alone. Each function
/// takes a DONE task with the result its worker handed in.
namespace tessera::server {

/// Adds what reading a model takes to a task's inputs: the model and its external data.
void addModelInputs(const v1::CompileSpec& compile, v1::TaskSpec& spec);

/// The PLAN task of a new compile action.
absl::Status beginCompile(Step& step, const v1::Action& action);

absl::Status planDone(Step& step, v1::Action& action, const v1::Task& task);

/// A worker built this object of a unit: others find it by its key.
absl::Status fileObject(Step& step, const std::string& worker_id, const std::string& build_key, const v1::Digest& unit,
                        const v1::Digest& object);

/// For one of the actions that wait for the object.
absl::Status buildDone(Step& step, v1::Action& action, const v1::Task& task);

absl::Status assembleDone(Step& step, v1::Action& action, const v1::Task& task);

/// Why `result` cannot be the result of a task of this kind, empty when it can: the payload is of the
/// kind, and every file it speaks of is among its files. Task processes handle untrusted models, so
/// their word is checked.
std::string resultProblem(v1::TaskKind kind, const v1::TaskResult& result);

/// Digest of a result's output file; an empty one when there is no such file.
v1::Digest fileDigest(const v1::TaskResult& result, const std::string& name);

}  // namespace tessera::server
