#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/observations.h"
#include "server/queue/rules.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// The queue's view of the work that it queues. It declares these interfaces and never includes server/workflows, which
/// implements them; server.cpp joins the two.
namespace tessera::server {

struct QueueTransaction;

/// The result of earlier work with the key of a new request.
struct EarlierResult {
  Lookup lookup = Lookup::kNew;
  std::optional<v1::Artifact> artifact;  ///< none unless its bytes are still stored
};

/// One request to create a job. Each belongs to one call; not thread-safe.
class Submission {
 public:
  virtual ~Submission() = default;

  v1::CreateJobRequest request;
  std::string project;
  std::string request_hash;       ///< over what is requested; a repeated request_id must come with the same hash
  std::string key;                ///< living work with an equal key is shared, a finished result reused; empty: neither
  std::set<std::string> digests;  ///< SHA-256 digests of the blobs and artifacts that the request refers to

  /// Checks that the project may read every input. Replaces indirect references in `request` by digests, and adds these
  /// to `digests`.
  /// MISSING_BLOB, NOT_FOUND or INVALID_INPUT naming the field. May be called again.
  virtual absl::Status requireInputs(storage::Reader& reader) = 0;

  /// Copies what is requested into the job.
  virtual void describe(v1::Job& job) const = 0;

  /// Looks up the result under `key`. If there is one, puts it into the job, which has then succeeded.
  virtual absl::StatusOr<EarlierResult> findResult(storage::Reader& reader, v1::Job& job) const = 0;

  /// Copies what the job's work needs into its new action, which is not stored yet.
  virtual void describe(const Rules& rules, const v1::Job& job, v1::Action& action) const = 0;

  /// Adds the first tasks of the action. Action and job are stored.
  virtual absl::Status begin(QueueTransaction& queue, v1::Action action, const v1::Job& job) const = 0;
};

/// Decides which task follows a finished one, and the consequences of a failed one. Stateless: all state is in the
/// rows. Thread-safe. Functions that take a QueueTransaction run within its transaction, which a store may run again.
class Workflow {
 public:
  virtual ~Workflow() = default;

  /// `target` is resolved, and outlives the submission.
  virtual std::unique_ptr<Submission> submit(v1::CreateJobRequest request, const v1::Target& target,
                                             std::string project, v1::TuneMode mode, const Rules& rules) const = 0;

  /// A worker has leased the task for `actions`, which are running: completes the lease with what the task needs from
  /// their state, and reports the phase that begins.
  virtual absl::Status taskLeased(QueueTransaction& queue, const v1::Task& task, const v1::Worker& worker,
                                  std::vector<v1::Action> actions, v1::Lease& lease) const = 0;

  /// A heartbeat carried progress for a living action.
  virtual absl::Status taskProgressed(QueueTransaction& queue, v1::Action& action,
                                      const v1::Progress& progress) const = 0;

  /// Replaces a result that cannot come from this task by a failure. Runs before the transaction that stores the
  /// report. For tasks of a search (TaskTraits::search) the output files are already stored.
  virtual absl::Status checkResult(storage::Store& store, storage::BlobStore& blobs, v1::Task task,
                                   v1::TaskResult& result) const = 0;

  /// The task has succeeded; `actions` are the living ones that wait for it.
  virtual absl::Status taskDone(QueueTransaction& queue, const v1::Task& task,
                                std::vector<v1::Action> actions) const = 0;

  /// The task has failed without a further attempt; `actions` likewise.
  virtual absl::Status taskFailed(QueueTransaction& queue, const v1::Task& task, const v1::Failure& failure,
                                  std::vector<v1::Action> actions) const = 0;

  /// The action has failed or was cancelled, and is stored so: releases its claims on other actions. The queue itself
  /// cancels the action's tasks.
  virtual absl::Status release(QueueTransaction& queue, const v1::Action& action) const = 0;

  /// The job ends before its work does, for `reason`: puts the results so far into it. True: they are a result, so that
  /// the job succeeds with it at its deadline.
  virtual absl::StatusOr<bool> takePartialResult(QueueTransaction& queue, const std::string& action_id,
                                                 v1::Failure::Reason reason, v1::Job& job) const = 0;

  /// Actions with a time limit of their own that has passed; endOverdue() is called for each.
  virtual absl::StatusOr<std::vector<std::string>> overdue(storage::Reader& reader, int64_t now_us) const = 0;
  virtual absl::Status endOverdue(QueueTransaction& queue, const std::string& action_id) const = 0;
};

}  // namespace tessera::server
