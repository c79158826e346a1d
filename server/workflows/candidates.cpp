#include "server/workflows/candidates.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/queue/tasks.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/search_log.h"

namespace tessera::server {
namespace {

constexpr int64_t kMaxBytes = int64_t{256} << 20;  // limit of a candidate's object, which is read at once

/// Name of the trial in a candidate's message; empty: it is no such message. An error if the blob cannot be read now.
template <typename Message>
absl::StatusOr<std::string> trialOf(storage::BlobStore& blobs, const v1::Digest& digest) {
  std::string bytes;
  const auto size = blobs.size(digest.sha256());
  Message message;
  absl::Status read = size.status();
  if (size.ok() && *size <= kMaxBytes) {
    read = blobs.get(digest.sha256(), 0, 0, [&](std::string_view chunk) {
      bytes += chunk;
      return absl::OkStatus();
    });
  }
  if (absl::IsUnavailable(read)) {
    return read;
  }
  return read.ok() && message.ParseFromString(bytes) ? message.trial() : "";
}

/// Deletes a blob's row; the file is deleted once the transaction is durable, so that a trial whose end is lost in a
/// crash still has its inputs.
absl::Status dropBlob(QueueTransaction& queue, const v1::Digest& blob) {
  if (!blob.sha256().empty()) {
    TESSERA_RETURN_IF_ERROR(queue.tx.erase(storage::Kind::kBlob, blob.sha256()));
    queue.effects.dropped_blobs.push_back(blob);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> foreignBlob(storage::BlobStore& blobs, const v1::TaskSpec& task,
                                        const v1::TaskResult& result) {
  // BUILD of a candidate: the object must name the trial of its unit.
  if (task.build().candidate()) {
    const v1::Digest object = fileDigest(result, result.build().object_file());
    TESSERA_ASSIGN_OR_RETURN(const std::string trial, trialOf<v1::CandidateUnit>(blobs, task.build().unit()));
    TESSERA_ASSIGN_OR_RETURN(const std::string built, trialOf<v1::CandidateObject>(blobs, object));
    return !trial.empty() && built == trial
               ? ""
               : absl::StrCat("names blob ", object.sha256(), " as the object of trial ", trial, ", which it is not");
  }
  for (int at = 0; at < result.search().proposals_size(); ++at) {
    const v1::Digest unit = fileDigest(result, result.search().proposals(at).unit_file());
    // SEARCH: the name is derived from the search, the batch and the position, which the worker cannot choose.
    const std::string trial =
        absl::StrCat(task.search().search(), "-", task.search().log().batches_size(), "-", at + 1);
    TESSERA_ASSIGN_OR_RETURN(const std::string proposed, trialOf<v1::CandidateUnit>(blobs, unit));
    if (proposed != trial) {
      return absl::StrCat("names blob ", unit.sha256(), " as the unit of trial ", trial, ", which it is not");
    }
  }
  return "";
}

absl::Status dropCandidate(QueueTransaction& queue, const v1::Candidate& candidate) {
  TESSERA_RETURN_IF_ERROR(dropBlob(queue, candidate.unit()));
  return dropBlob(queue, candidate.object());
}

absl::Status cancelTasks(QueueTransaction& queue, const std::string& search_id) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, queue.tx.tasksOfAction(search_id));
  for (v1::Task& task : tasks) {
    if (task.state() == v1::Task::READY || task.state() == v1::Task::LEASED) {
      TESSERA_RETURN_IF_ERROR(cancelTask(queue, task));
    }
  }
  return absl::OkStatus();
}

absl::Status deleteSearch(QueueTransaction& queue, const v1::Action& search) {
  TESSERA_RETURN_IF_ERROR(cancelTasks(queue, search.id()));
  for (const v1::SearchState::Trial& trial : search.search().trials()) {
    if (isOpen(trial)) {
      TESSERA_RETURN_IF_ERROR(dropCandidate(queue, trial.candidate()));
    }
  }
  TESSERA_RETURN_IF_ERROR(dropCandidate(queue, search.search().best()));
  // The blob of known trees belongs to the search, as it contains the search's name.
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::SearchEntry> entries, queue.tx.searchLog(search.id()));
  for (const v1::SearchEntry& entry : entries) {
    if (entry.has_known()) {
      TESSERA_RETURN_IF_ERROR(dropBlob(queue, entry.known()));
    }
  }
  return queue.tx.erase(storage::Kind::kAction, search.id());
}

}  // namespace tessera::server
