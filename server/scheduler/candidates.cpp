#include "server/scheduler/candidates.h"

#include "server/scheduler/tasks.h"
#include "server/status_macros.h"

namespace tessera::server {

absl::Status dropCandidate(Step& step, const v1::Candidate& candidate) {
  for (const v1::Digest* blob : {&candidate.unit(), &candidate.object()}) {
    if (blob->sha256().empty()) {
      continue;
    }
    // The file goes when this is durable: a trial whose end is undone by a crash still has its inputs.
    TESSERA_TRY(step.tx.erase(storage::Kind::kBlob, blob->sha256()));
    step.effects.dropped_blobs.push_back(blob->sha256());
  }
  return absl::OkStatus();
}

absl::Status cancelTasks(Step& step, const std::string& search_id) {
  TESSERA_ASSIGN(std::vector<v1::Task> tasks, step.tx.tasksOfAction(search_id));
  for (v1::Task& task : tasks) {
    if (task.state() == v1::Task::READY || task.state() == v1::Task::LEASED) {
      TESSERA_TRY(cancelTask(step, task));
    }
  }
  return absl::OkStatus();
}

absl::Status dissolve(Step& step, const v1::Action& search) {
  TESSERA_TRY(cancelTasks(step, search.id()));
  for (const v1::SearchState::Trial& trial : search.search().trials()) {
    if (!trial.task_id().empty()) {
      TESSERA_TRY(dropCandidate(step, trial.candidate()));
    }
  }
  TESSERA_TRY(dropCandidate(step, search.search().best()));
  return step.tx.erase(storage::Kind::kAction, search.id());
}

}  // namespace tessera::server
