#include "server/workflows/search_log.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

constexpr double kNotKnown = -1;

/// Number of the batch's trials in the row. Finished batches in rows of earlier releases have none.
int trialsOf(const v1::SearchLog::Batch& batch) {
  return static_cast<int>(std::count(batch.refused().begin(), batch.refused().end(), false)) - batch.speeds_size();
}

/// The batch with the outcomes of its trials, which start at `first`.
v1::SearchLog::Batch withSpeeds(const v1::SearchState& state, v1::SearchLog::Batch batch, int first) {
  const int end = first + trialsOf(batch);
  for (int at = first; at < end; ++at) {
    batch.add_speeds(isOpen(state.trials(at)) ? kNotKnown : state.trials(at).speed());
  }
  return batch;
}

}  // namespace

absl::StatusOr<SearchHistory> historyOf(storage::Reader& reader, const std::string& search_id) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::SearchEntry> entries, reader.searchLog(search_id));
  SearchHistory history;
  for (const v1::SearchEntry& entry : entries) {
    if (entry.has_batch()) {
      *history.log.add_batches() = entry.batch();
      for (const double speed : entry.batch().speeds()) {
        history.best_speed = std::max(history.best_speed, speed);
      }
    } else if (entry.has_confirmation() && entry.confirmation().confirmed() &&
               entry.confirmation().speed() > history.confirmed.speed()) {
      history.confirmed = entry.confirmation();
    } else if (entry.has_known()) {
      history.known = entry.known();
      // A restart discards the proposals; confirmations stay valid.
    } else if (entry.restarted()) {
      history.log.clear_batches();
      ++history.restarts;
    }
  }
  return history;
}

absl::StatusOr<v1::SearchLog> searchLogOf(storage::Reader& reader, const std::string& search_id) {
  TESSERA_ASSIGN_OR_RETURN(SearchHistory history, historyOf(reader, search_id));
  const auto search = reader.getAction(search_id);
  if (absl::IsNotFound(search.status())) {  // the search has ended
    return std::move(history.log);
  }
  TESSERA_RETURN_IF_ERROR(search.status());
  int first = 0;
  for (const v1::SearchLog::Batch& batch : search->search().log().batches()) {
    *history.log.add_batches() = withSpeeds(search->search(), batch, first);
    // Trials of all batches are stored one after the other.
    first += trialsOf(batch);
  }
  return std::move(history.log);
}

int trialsOfOldest(const v1::SearchState& state) {
  return state.log().batches().empty() ? 0 : trialsOf(state.log().batches(0));
}

bool oldestIsOver(const v1::SearchState& state) {
  const auto trials = state.trials().begin();
  return !state.log().batches().empty() && std::none_of(trials, trials + trialsOfOldest(state), isOpen);
}

absl::Status appendOldest(QueueTransaction& queue, v1::Action& search) {
  v1::SearchState& state = *search.mutable_search();
  v1::SearchEntry entry;
  *entry.mutable_batch() = withSpeeds(state, state.log().batches(0), 0);
  const int trials = trialsOfOldest(state);
  state.mutable_trials()->DeleteSubrange(0, trials);
  state.mutable_log()->mutable_batches()->DeleteSubrange(0, 1);
  return queue.tx.appendToSearch(search.id(), entry);
}

}  // namespace tessera::server
