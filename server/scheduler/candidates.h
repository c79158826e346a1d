#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/scheduler/step.h"
#include "tessera/v1/storage.pb.h"

/// What a search's candidates leave behind, and how it goes.
namespace tessera::server {

/// Deletes a candidate's blobs. They name search and trial, so nobody else's have the same content.
absl::Status dropCandidate(Step& step, const v1::Candidate& candidate);

/// Cancels what is still to do or running for the search.
absl::Status cancelTasks(Step& step, const std::string& search_id);

/// Cancels and deletes all that a search has: tasks, candidates, itself.
absl::Status dissolve(Step& step, const v1::Action& search);

}  // namespace tessera::server
