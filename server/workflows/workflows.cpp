#include "server/workflows/workflows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/queue/actions.h"
#include "server/queue/queue_transaction.h"
#include "server/queue/tasks.h"
#include "server/workflows/candidates.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/runs.h"
#include "server/workflows/search_log.h"
#include "server/workflows/searches.h"
#include "server/workflows/submissions.h"
#include "server/workflows/tuning.h"
#include "server/workflows/tuning_progress.h"
#include "server/workflows/versions.h"

namespace tessera::server {
namespace {

bool takes(const v1::Worker& worker, v1::TaskKind kind) {
  return worker.kinds().empty() ||
         std::find(worker.kinds().begin(), worker.kinds().end(), kind) != worker.kinds().end();
}

/// Whether a task of this kind begins a phase of a job's progress. While units are built the job counts finished
/// objects, and ASSEMBLE and MEASURE are among many steps of their phase.
bool beginsPhase(v1::TaskKind kind) { return kind != v1::BUILD && kind != v1::ASSEMBLE && kind != v1::MEASURE; }

absl::Status actionDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  if (action.has_search()) {
    return searchTaskDone(queue, action, task);
  }
  switch (task.spec().kind()) {
    case v1::PLAN:
      return planDone(queue, action, task);
    case v1::BUILD:
      return buildDone(queue, action, task);
    case v1::ASSEMBLE:
      return assembleDone(queue, action, task);
    case v1::MEASURE:
      return tuneMeasured(queue, action, task);
    default:
      return runDone(queue, action, task);
  }
}

}  // namespace

std::unique_ptr<Submission> Workflows::submit(v1::CreateJobRequest request, const v1::Target& target,
                                              std::string project, v1::TuneMode mode, const Rules& rules) const {
  return submissionOf(std::move(request), target, std::move(project), mode, rules);
}

absl::Status Workflows::taskLeased(QueueTransaction& queue, const v1::Task& task, const v1::Worker& worker,
                                   std::vector<v1::Action> actions, v1::Lease& lease) const {
  const v1::TaskKind kind = task.spec().kind();
  if (beginsPhase(kind)) {
    for (v1::Action& action : actions) {
      if (!action.has_search()) {
        v1::Progress progress = phaseProgress(kind == v1::PLAN ? "import" : phaseOf(kind));
        TESSERA_RETURN_IF_ERROR(showProgress(queue, action, progress, false));
      }
    }
  }
  if (task.spec().plan().finish_small() && task.crashes() > 0) {
    // After a crash each step is a separate attempt, which shows the step that crashes. Stored, since the specification
    // becomes the reproducer.
    v1::Task planning_alone = task;
    planning_alone.mutable_spec()->mutable_plan()->set_finish_small(false);
    TESSERA_RETURN_IF_ERROR(queue.tx.putTask(planning_alone));
    lease.mutable_task()->mutable_plan()->set_finish_small(false);
  } else if (task.spec().plan().finish_small() && !(takes(worker, v1::BUILD) && takes(worker, v1::ASSEMBLE))) {
    lease.mutable_task()->mutable_plan()->set_finish_small(false);
  }
  // An attempt after a failed one runs every step itself.
  if (task.spec().has_plan() && !actions.empty() && !actions.front().skip_cache() && task.attempt() == 1) {
    lease.set_step_cache(projectOf(actions.front()));
  }
  if (task.spec().has_search() && !actions.empty()) {
    TESSERA_ASSIGN_OR_RETURN(*lease.mutable_task()->mutable_search()->mutable_log(),
                             searchLogOf(queue.tx, actions.front().id()));
  }
  return absl::OkStatus();
}

absl::Status Workflows::taskProgressed(QueueTransaction& queue, v1::Action& action,
                                       const v1::Progress& progress) const {
  return showProgress(queue, action, progress, true);
}

absl::Status Workflows::checkResult(storage::Store& store, storage::BlobStore& blobs, v1::Task task,
                                    v1::TaskResult& result) const {
  std::string problem = resultProblem(task.spec().kind(), result);
  const int proposed = result.search().proposals_size(), wanted = task.spec().search().wanted();
  if (problem.empty() && proposed > wanted) {
    problem = absl::StrCat("it proposes ", proposed, " trees, ", wanted, " were wanted");
  }
  if (!problem.empty()) {
    result.mutable_failure()->set_reason(v1::Failure::INTERNAL);
    result.mutable_failure()->set_message(absl::StrCat("the task process left a result that does not fit: ", problem));
    return absl::OkStatus();
  }
  if (task.spec().has_search()) {  // the lease had the log, the stored task does not
    TESSERA_RETURN_IF_ERROR(store.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> searches, reader.actionsOfTask(task.id()));
      if (!searches.empty()) {
        TESSERA_ASSIGN_OR_RETURN(*task.mutable_spec()->mutable_search()->mutable_log(),
                                 searchLogOf(reader, searches.front()));
      }
      return absl::OkStatus();
    }));
  }
  TESSERA_ASSIGN_OR_RETURN(problem, foreignBlob(blobs, task.spec(), result));
  if (!problem.empty()) {
    spdlog::warn("task {}: worker {} {}", task.id(), task.worker_id(), problem);
    result.Clear();
    result.mutable_failure()->set_reason(v1::Failure::WORKER_FAULT);
    result.mutable_failure()->set_message(absl::StrCat("the worker ", problem));
  }
  return absl::OkStatus();
}

absl::Status Workflows::taskDone(QueueTransaction& queue, const v1::Task& task, std::vector<v1::Action> actions) const {
  if (task.spec().kind() == v1::BUILD && !task.key().empty()) {
    const v1::Digest object = fileDigest(task.result(), task.result().build().object_file());
    TESSERA_RETURN_IF_ERROR(storeObject(queue, task.worker_id(), task.key(), task.spec().build().unit(), object));
  }
  for (v1::Action& action : actions) {
    TESSERA_RETURN_IF_ERROR(actionDone(queue, action, task));
  }
  return absl::OkStatus();
}

absl::Status Workflows::taskFailed(QueueTransaction& queue, const v1::Task& task, const v1::Failure& failure,
                                   std::vector<v1::Action> actions) const {
  for (v1::Action& action : actions) {
    if (action.has_search()) {
      TESSERA_RETURN_IF_ERROR(searchTaskFailed(queue, std::move(action), task, failure));
    } else if (action.has_tune()) {
      TESSERA_RETURN_IF_ERROR(tuneTaskFailed(queue, std::move(action), task, failure));
    } else {
      TESSERA_RETURN_IF_ERROR(failAction(queue, action, failure));
    }
  }
  return absl::OkStatus();
}

absl::Status Workflows::release(QueueTransaction& queue, const v1::Action& action) const {
  for (const std::string& search : action.tune().searches()) {
    TESSERA_RETURN_IF_ERROR(leaveSearch(queue, search, action.id()));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Workflows::takePartialResult(QueueTransaction& queue, const std::string& action_id,
                                                  v1::Failure::Reason reason, v1::Job& job) const {
  if (!job.has_tune()) {
    return false;
  }
  TESSERA_ASSIGN_OR_RETURN(const v1::Action action, queue.tx.getAction(action_id));
  if (reason == v1::Failure::CANCELLED) {
    *job.mutable_tune_result() = tuneResult(action);
    return false;
  }
  if (action.tune().default_artifact_id().empty()) {
    return false;
  }
  TESSERA_RETURN_IF_ERROR(publishUnlessPublished(queue, action));
  *job.mutable_tune_result() = tuneResult(action);  // the newest version, which was compared
  job.mutable_tune_result()->set_note("the job's deadline came before all that was found could be compared");
  return true;
}

absl::StatusOr<std::vector<std::string>> Workflows::overdue(storage::Reader& reader, int64_t now_us) const {
  return pastBudget(reader, now_us);
}

absl::Status Workflows::endOverdue(QueueTransaction& queue, const std::string& action_id) const {
  return endBudget(queue, action_id);
}

}  // namespace tessera::server
