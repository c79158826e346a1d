#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// Steps of a compile action: PLAN, one BUILD for each distinct unit without an object, ASSEMBLE. The attempt that
/// plans a small model also builds and assembles it; if that attempt crashes, the next one only plans. planDone(),
/// buildDone() and assembleDone() take a task that has succeeded, with its result, and start the next step of `action`.
namespace tessera::server {

/// Adds the files of a model to a task's inputs: the model, its external data, the pins.
void addModelInputs(const v1::CompileSpec& compile, v1::TaskSpec& spec);

/// Adds the PLAN task of a new compile action.
absl::Status beginCompile(QueueTransaction& queue, const v1::Action& action);

/// Requests an object for each unit of the plan. If the attempt has also assembled the model, publishes the artifact.
absl::Status planDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

/// Stores the object that a worker built from a unit, under its build key.
absl::Status storeObject(QueueTransaction& queue, const std::string& worker_id, const std::string& build_key,
                         const v1::Digest& unit, const v1::Digest& object);

/// Counts the object; after the last one, adds the ASSEMBLE task. Called once for each action that waits for the task.
absl::Status buildDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

/// Publishes the artifact.
absl::Status assembleDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

/// Returns why `result` cannot be the result of a task of this kind; empty if it can: the payload has the kind's type,
/// and each file that it names is among its files. Checked because task processes handle untrusted models.
std::string resultProblem(v1::TaskKind kind, const v1::TaskResult& result);

/// Digest of an output file of the result; empty if there is no such file.
v1::Digest fileDigest(const v1::TaskResult& result, const std::string& name);

}  // namespace tessera::server
