#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/tuning_state.pb.h"

/// History of a search. Finished batches are appended to the store, one entry each. Batches in progress are in the
/// search's row, with their outcomes in its trials.
namespace tessera::server {

/// Finished part of a search's history.
struct SearchHistory {
  v1::SearchLog log;                        ///< finished batches since the last restart
  double best_speed = 1;                    ///< of all batches: largest speedup over the default tree
  v1::SearchEntry::Confirmation confirmed;  ///< the fastest confirmation that stands; empty: none
  v1::Digest known;                         ///< blob of the v1::KnownTrees of the warm start
  int restarts = 0;                         ///< number of restarts
};

/// Reads the entries of finished batches.
absl::StatusOr<SearchHistory> historyOf(storage::Reader& reader, const std::string& search_id);

/// Proposals and outcomes since the search was last restarted, for a SEARCH task. The lease carries them, so that no
/// stored row grows with each batch. Outcomes of batches in progress are included as far as they are known.
absl::StatusOr<v1::SearchLog> searchLogOf(storage::Reader& reader, const std::string& search_id);

/// Whether the trial is in progress.
inline bool isOpen(const v1::SearchState::Trial& trial) { return !trial.task_id().empty(); }

/// Number of the row's trials that belong to its oldest batch.
int trialsOfOldest(const v1::SearchState& state);

/// Whether the row has a batch, and all trials of the oldest one have ended.
bool oldestIsOver(const v1::SearchState& state);

/// Moves the row's oldest batch with its outcomes to the log. Does not store the row.
absl::Status appendOldest(QueueTransaction& queue, v1::Action& search);

}  // namespace tessera::server
