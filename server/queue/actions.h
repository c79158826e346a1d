#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// State transitions of actions. Each is applied to all living jobs of the action as well.
namespace tessera::server {

bool isLiving(const v1::Action& action);

/// QUEUED -> RUNNING, with the first lease of one of its tasks.
absl::Status startAction(QueueTransaction& queue, v1::Action& action);

/// Stores progress. Its jobs get an event, unless `can_wait` and the last event was less than
/// Rules::progress_interval_us ago.
absl::Status noteProgress(QueueTransaction& queue, v1::Action& action, const v1::Progress& progress, bool can_wait);

/// Adds a finished phase to the action. Its jobs show it from their next update on.
void notePhase(v1::Action& action, const std::string& phase, double wall_ms, double cpu_ms, int tasks);

/// -> SUCCEEDED. `fill_result` puts the result into each living job.
absl::Status succeedAction(QueueTransaction& queue, v1::Action& action,
                           const std::function<void(v1::Job&)>& fill_result);

/// -> FAILED, with its living jobs. Cancels tasks that no other action waits for.
absl::Status failAction(QueueTransaction& queue, v1::Action& action, const v1::Failure& failure);

/// Fails the living jobs for which `concerned` holds; fails the action too if no other living job is left.
absl::Status failJobs(QueueTransaction& queue, v1::Action& action, const v1::Failure& failure,
                      const std::function<bool(const v1::Job&)>& concerned);

/// -> CANCELLED if no living job is left; otherwise changes nothing.
absl::Status cancelActionIfUnwanted(QueueTransaction& queue, const std::string& action_id);

/// The actions whose jobs wait for `action`: the action itself; for an action without jobs (a search), the actions that
/// share it.
std::vector<std::string> actionsWithJobs(const v1::Action& action);

/// The living actions that wait for the task.
absl::StatusOr<std::vector<v1::Action>> livingActionsOf(QueueTransaction& queue, const std::string& task_id);

}  // namespace tessera::server
