#include "storage/notices.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {

std::shared_ptr<void> Notices::listen(Listener listener) {
  const std::unique_lock lock(board_->mutex);
  const auto at = board_->listeners.insert(board_->listeners.end(), std::move(listener));
  return {nullptr, [board = board_, at](void*) {
            const std::unique_lock lock(board->mutex);
            board->listeners.erase(at);
          }};
}

void Notices::post(const Notice& notice) const {
  if (notice.tasks_ready == 0 && notice.changed_jobs.empty() && !notice.missed) return;
  const std::shared_lock lock(board_->mutex);
  for (const Listener& listener : board_->listeners) listener(notice);
}

absl::Status Transaction::putLeasedTask(const v1::Task& task, int64_t token) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Task known, getTask(task.id()));
  if (known.state() != v1::Task::LEASED || known.fencing_token() != token) {
    return absl::AbortedError(absl::StrCat("task ", task.id(), " is not leased under token ", token, " (state ",
                                           v1::Task::State_Name(known.state()), ", newest token ",
                                           known.fencing_token(), ")"));
  }
  return putTask(task);
}

}  // namespace tessera::storage
