#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// Versions of a tune job's artifact (FlexTensor; thesis, 4.6.3). When trees have been confirmed since the newest
/// version, the model is compiled with all of them and run alternating with the default. The result is published if it
/// is correct and no slower than the version before. Otherwise the trees at fault are dropped, and the rest is tried
/// again. The job's mode decides when: ASYNC at once, SYNC when all searches have finished a batch, STATIC when all
/// searches have ended.
namespace tessera::server {

/// Limit of a job's versions, to which each choice may add one. Each is a row that lives as long as the job.
inline constexpr int kMaxVersions = 1000;

/// Starts the versions of a new tune job with this mode.
absl::Status beginVersions(QueueTransaction& queue, const v1::Job& job, v1::TuneMode mode);

/// Call it when the default is compiled: publishes it as the first version, unless the mode is STATIC.
absl::Status defaultCompiled(QueueTransaction& queue, const v1::Action& tune);

/// Call it when the model with all kept choices was measured faster than the default: publishes it as the next version.
absl::Status choicesConfirmed(QueueTransaction& queue, v1::Action& tune, const v1::MeasureTaskResult& result);

/// Whether the job can use trees before its searches end.
absl::StatusOr<bool> takesTreesEarly(QueueTransaction& queue, const std::string& tune_id);

/// Number of searches that may start a batch now; `waiting` of the job's searches have no batch in progress. ASYNC and
/// STATIC: `free_workers`, the number that the caller has found workers for. SYNC: all searches of the job together,
/// once all of them are waiting and no choice and no version is in progress; otherwise 0.
absl::StatusOr<int> searchesToDispatch(QueueTransaction& queue, const v1::Action& tune, int waiting, int free_workers);

/// Call it when a search of the job has confirmed a tree: stores the tree for publishNextVersion().
absl::Status treeConfirmed(QueueTransaction& queue, const std::string& tune_id, const std::string& workload_hash,
                           const v1::Schedule& schedule, double speed);

/// Starts the next version if there is a new tree and the mode permits. Ends the job if no search and nothing to try
/// remains.
absl::Status publishNextVersion(QueueTransaction& queue, const std::string& tune_id);

/// Call it when the model with the trees being tried is compiled (`action.result` is its artifact): adds the task that
/// measures it.
absl::Status versionAssembled(QueueTransaction& queue, v1::Action& action);

/// Call it when the MEASURE task of the version being made has succeeded: publishes the version, or drops trees.
absl::Status versionMeasured(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

/// Call it when the version could not be compiled or run: drops trees and tries the rest.
absl::Status versionFailed(QueueTransaction& queue, v1::Action& action, const v1::Failure& failure);

/// Call it when the job ends: publishes its current artifact if there is no version yet.
absl::Status publishUnlessPublished(QueueTransaction& queue, const v1::Action& tune);

/// The version that a run of the job's artifact uses. TUNE job: version `number`, or for 0 the version that programs
/// should run. COMPILE job: its artifact, as version 0. FAILED_PRECONDITION if there is none.
absl::StatusOr<v1::ArtifactVersion> versionToRun(storage::Reader& reader, const v1::Job& job, int number);

/// Makes an earlier version the newest one; 0: the job's newest version again. Adds no version if programs run it
/// already. NOT_FOUND: no such version. FAILED_PRECONDITION: its artifact was deleted. RESOURCE_EXHAUSTED: the job has
/// kMaxVersions.
absl::StatusOr<v1::ArtifactVersion> chooseVersion(QueueTransaction& queue, const std::string& job_id, int number);

}  // namespace tessera::server
