#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/tuning_state.pb.h"

/// What a search has proposed and heard: batches that are over lie in the store, one entry each; those that are tried
/// are in the search's row, their outcomes in its trials.
namespace tessera::server {

/// What a search has history, and what its candidates' names begin with.
struct SearchHistory {
  v1::SearchLog log;
  double best_speed = 1;
  v1::SearchEntry::Confirmation confirmed;  // the fastest that stands; empty: none
  v1::Digest known;
  int begun_anew = 0;
};

/// Of the batches that are over.
absl::StatusOr<SearchHistory> historyOf(storage::Reader& reader, const std::string& search_id);

/// What it has proposed and heard since it was last begun, for a SEARCH task: given with the lease, so that no row
/// grows with every batch. With what is known by now of a batch that is tried.
absl::StatusOr<v1::SearchLog> searchLogOf(storage::Reader& reader, const std::string& search_id);

/// Whether the trial's outcome is not known yet.
inline bool isOpen(const v1::SearchState::Trial& trial) { return !trial.task_id().empty(); }

/// How many of the row's trials belong to its oldest batch.
int trialsOfOldest(const v1::SearchState& state);

/// Whether the row has a batch, and every trial of the oldest one is over.
bool oldestIsOver(const v1::SearchState& state);

/// Moves the row's oldest batch with its outcomes to the log. The row is not stored.
absl::Status appendOldest(Step& step, v1::Action& search);

}  // namespace tessera::server
