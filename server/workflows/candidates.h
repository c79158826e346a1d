#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// Blobs of a search's candidates, and the end of a search.
namespace tessera::server {

/// Candidates' blobs are deleted with their trials, so no other object may share them: each contains the name of its
/// trial. Returns what is wrong with the blobs that a report names; empty: they belong to the task's trial, or the task
/// is not part of a search. UNAVAILABLE if a blob cannot be read now.
absl::StatusOr<std::string> foreignBlob(storage::BlobStore& blobs, const v1::TaskSpec& task,
                                        const v1::TaskResult& result);

/// Deletes a candidate's blobs. foreignBlob() has checked that they belong to its trial.
absl::Status dropCandidate(QueueTransaction& queue, const v1::Candidate& candidate);

/// Cancels the unfinished tasks of the search.
absl::Status cancelTasks(QueueTransaction& queue, const std::string& search_id);

/// Deletes a search: cancels its tasks, deletes its candidates and the action.
absl::Status deleteSearch(QueueTransaction& queue, const v1::Action& search);

}  // namespace tessera::server
