#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// What a search's candidates leave behind, and how it goes.
namespace tessera::server {

/// Candidates' blobs are deleted with their trials, so none may be anybody else's: each names its trial within. What is
/// wrong with those that a report names; empty: they are the trial's own, or not candidates' at all.
std::string foreignBlob(storage::BlobStore& blobs, const v1::TaskSpec& task, const v1::TaskResult& result);

/// Deletes a candidate's blobs, which foreignBlob() has found to be its own.
absl::Status dropCandidate(Step& step, const v1::Candidate& candidate);

/// Cancels what is still to do or running for the search.
absl::Status cancelTasks(Step& step, const std::string& search_id);

/// Cancels and deletes all that a search has: tasks, candidates, itself.
absl::Status dissolve(Step& step, const v1::Action& search);

}  // namespace tessera::server
