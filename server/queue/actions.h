#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// Transitions of actions, each carried over to the living jobs that share them.
namespace tessera::server {

bool isLiving(const v1::Action& action);

/// QUEUED -> RUNNING with the first lease of one of its tasks.
absl::Status startAction(Step& step, v1::Action& action);

/// Notes progress; jobs get an event unless one was sent a moment ago and this one can wait.
absl::Status noteProgress(Step& step, v1::Action& action, const v1::Progress& progress, bool can_wait);

/// Adds a finished phase to the action. Its jobs carry it from their next change on.
void notePhase(v1::Action& action, const std::string& phase, double wall_ms, double cpu_ms, int tasks);

/// -> SUCCEEDED; `fill_result` puts the result into each living job.
absl::Status succeedAction(Step& step, v1::Action& action, const std::function<void(v1::Job&)>& fill_result);

/// -> FAILED, its living jobs too; tasks nobody else waits for are cancelled.
absl::Status failAction(Step& step, v1::Action& action, const v1::Failure& failure);

/// Fails those living jobs of an action for which `concerned` holds, and the action itself when none is left.
absl::Status failJobs(Step& step, v1::Action& action, const v1::Failure& failure,
                      const std::function<bool(const v1::Job&)>& concerned);

/// -> CANCELLED when no living job is left; otherwise nothing changes.
absl::Status cancelActionIfUnwanted(Step& step, const std::string& action_id);

/// The actions whose jobs wait for this one: itself, or, of an action that several others share and that has no jobs of
/// its own, those others.
std::vector<std::string> actionsWithJobs(const v1::Action& action);

/// The living actions that wait for a task.
absl::StatusOr<std::vector<v1::Action>> livingActionsOf(Step& step, const std::string& task_id);

}  // namespace tessera::server
