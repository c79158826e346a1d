#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/queue/workflow.h"

namespace tessera::server {

/// The kinds of work of this service: compile, tune (with searches and versions), execute, profile, analyze. The only
/// class that the queue calls.
class Workflows : public Workflow {
 public:
  std::unique_ptr<Submission> submit(v1::CreateJobRequest request, const v1::Target& target, std::string project,
                                     v1::TuneMode mode, const Rules& rules) const override;
  absl::Status taskLeased(QueueTransaction& queue, const v1::Task& task, const v1::Worker& worker,
                          std::vector<v1::Action> actions, v1::Lease& lease) const override;
  absl::Status taskProgressed(QueueTransaction& queue, v1::Action& action, const v1::Progress& progress) const override;
  absl::Status checkResult(storage::Store& store, storage::BlobStore& blobs, v1::Task task,
                           v1::TaskResult& result) const override;
  absl::Status taskDone(QueueTransaction& queue, const v1::Task& task, std::vector<v1::Action> actions) const override;
  absl::Status taskFailed(QueueTransaction& queue, const v1::Task& task, const v1::Failure& failure,
                          std::vector<v1::Action> actions) const override;
  absl::Status release(QueueTransaction& queue, const v1::Action& action) const override;
  absl::StatusOr<bool> takePartialResult(QueueTransaction& queue, const std::string& action_id,
                                         v1::Failure::Reason reason, v1::Job& job) const override;
  absl::StatusOr<std::vector<std::string>> overdue(storage::Reader& reader, int64_t now_us) const override;
  absl::Status endOverdue(QueueTransaction& queue, const std::string& action_id) const override;
};

}  // namespace tessera::server
