#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// The search for the best tree of one workload. It is an action that belongs to the tune actions which wait for it,
/// not to a job; equal workloads of concurrent jobs share one. It works in batches: a SEARCH task proposes trees, each
/// is built and measured, each outcome is committed with its record, and the next SEARCH task reads the log of outcomes
/// (search_log.h). A tree that is much faster than the last confirmed one is confirmed at once if a job can use it
/// early. A candidate's blobs are deleted with its trial, the remaining ones with the search.
namespace tessera::server {

/// Makes the tune action wait for the search of one of its workloads, which is started if no other job searches an
/// equal workload. Returns the search's id. `unit` has the default tree, `flops` is the workload's. Sets `shared` to
/// whether another job had started the search.
absl::StatusOr<std::string> joinSearch(QueueTransaction& queue, const v1::Action& tune,
                                       const v1::Action::BuildRef& unit, int64_t flops, bool& shared);

/// Whether the search may propose its next batch: it has none in progress, or the trials of its batches are built and
/// only their measurements remain. In the second case the next batch is built while these are measured.
absl::StatusOr<bool> mayPropose(QueueTransaction& queue, const v1::Action& search);

/// Trials of a batch. The method learns after every five trials (FlexTensor; thesis, 4.4.1).
inline constexpr int kBatch = 5;
/// Proposes the next batch of a search that may propose one, of at most `most` trees. If measurements of earlier
/// batches remain, the proposal uses the outcomes known so far.
absl::Status beginBatch(QueueTransaction& queue, v1::Action search, int most);

/// Minimum ratio of the default's time to a candidate's that counts as faster.
double minGain(const v1::MeasuringRules& rules);

/// Whether only measurements of its batches remain.
bool onlyMeasurementsRemain(const v1::SearchState& search);

/// Expected increase of the workload's speed by the next batch, as a fraction: 0.1 is 10 % faster.
double expectedGain(const v1::SearchState& search);

/// Call it when a task of the search has succeeded. After a SEARCH task, adds a BUILD task for each proposed tree;
/// after a BUILD task, the MEASURE task; after a MEASURE task, stores the trial's outcome.
absl::Status searchTaskDone(QueueTransaction& queue, v1::Action search, const v1::Task& task);

/// Call it when a task of the search has failed without a further attempt. A candidate's own failure is the outcome of
/// its trial. A failure of the service or of the request fails the jobs that wait for the search.
absl::Status searchTaskFailed(QueueTransaction& queue, v1::Action search, const v1::Task& task,
                              const v1::Failure& failure);

/// Ends the search early: no further trial, and those in progress are cancelled. The best tree is confirmed first.
absl::Status closeSearch(QueueTransaction& queue, v1::Action search);

/// Removes the tune action from those that wait for the search. Deletes the search if no other action waits for it.
absl::Status leaveSearch(QueueTransaction& queue, const std::string& search_id, const std::string& tune_id);

}  // namespace tessera::server
