#pragma once

#include <string>
#include <vector>

#include "storage/sql/database.h"
#include "storage/store.h"

namespace tessera::storage {

/// Read operations on one connection, within its open transaction. `Interface` is Reader or Transaction.
template <typename Interface>
class SqlReader : public Interface {
 public:
  /// `token_key` signs page tokens.
  SqlReader(Database& database, const std::string& token_key) : database_(database), token_key_(token_key) {}

  absl::StatusOr<v1::Job> getJob(const std::string& id) override;
  absl::StatusOr<v1::Job> getJobByRequestId(const std::string& project, const std::string& request_id) override;
  absl::StatusOr<std::string> getRequestHash(const std::string& job_id) override;
  absl::StatusOr<std::string> getActionOfJob(const std::string& job_id) override;
  absl::StatusOr<Page<v1::Job>> listJobs(const ListQuery& query) override;
  absl::StatusOr<std::vector<v1::Job>> liveJobsOfAction(const std::string& action_id) override;
  absl::StatusOr<std::string> firstLiveJobOfAction(const std::string& action_id) override;
  absl::StatusOr<std::vector<std::string>> jobsPastQueueDeadline(int64_t now_us) override;
  absl::StatusOr<std::vector<std::string>> jobsPastDeadline(int64_t now_us) override;
  absl::StatusOr<std::vector<v1::JobEvent>> eventsAfter(const std::string& job_id, int64_t cursor, int limit) override;
  absl::StatusOr<v1::Action> getAction(const std::string& id) override;
  absl::StatusOr<std::vector<v1::Action>> liveActionsByKey(const std::string& key) override;
  absl::StatusOr<v1::Artifact> artifactByKey(const std::string& key) override;
  absl::StatusOr<std::vector<v1::Action>> nearestActions(const std::string& project,
                                                         const std::vector<v1::KeyComponent>& components,
                                                         int limit) override;
  absl::StatusOr<std::vector<v1::SearchEntry>> searchLog(const std::string& search_id) override;
  absl::StatusOr<v1::ArtifactRollout> getRollout(const std::string& job_id) override;
  absl::StatusOr<std::vector<v1::ArtifactVersion>> versionsAfter(const std::string& job_id, int64_t cursor,
                                                                 int limit) override;
  absl::StatusOr<v1::Task> getTask(const std::string& id) override;
  absl::StatusOr<v1::Task> liveTaskByKey(const std::string& key) override;
  absl::StatusOr<LiveJobs> liveJobsOfTask(const std::string& task_id, int most) override;
  absl::StatusOr<std::vector<std::string>> actionsOfTask(const std::string& task_id) override;
  absl::StatusOr<std::vector<v1::Task>> tasksOfAction(const std::string& action_id) override;
  absl::StatusOr<v1::Task> nextReadyTask(const QueueQuery& query) override;
  absl::StatusOr<std::vector<v1::Task>> readySince(v1::TaskKind kind, int64_t since_us, int limit) override;
  absl::StatusOr<int> queuePosition(const std::string& task_id) override;
  absl::StatusOr<int64_t> queueLength() override;
  absl::StatusOr<std::vector<v1::Task>> leasedTasks() override;
  absl::StatusOr<std::vector<QueueDepth>> queueDepths() override;
  absl::StatusOr<std::vector<TargetDepth>> targetDepths() override;
  absl::StatusOr<v1::Digest> getObject(const std::string& build_key) override;
  absl::StatusOr<v1::Reproduction> getReproduction(const std::string& key) override;
  absl::StatusOr<v1::Artifact> getArtifact(const std::string& project, const std::string& id) override;
  absl::StatusOr<Page<v1::Artifact>> listArtifacts(const ListQuery& query) override;
  absl::StatusOr<Page<v1::TuningRecord>> listRecords(const ListQuery& query) override;
  absl::StatusOr<v1::TuningRecord> getRecord(const std::string& id) override;
  absl::StatusOr<Page<BestGroup>> bestRecords(const BestQuery& query) override;
  absl::StatusOr<std::vector<RecordGroup>> recordStatistics(const std::string& project, const std::string& filter,
                                                            const std::string& group_by, int limit) override;
  absl::StatusOr<v1::Target> getTarget(const std::string& project, const std::string& name) override;
  absl::StatusOr<Page<StoredTarget>> listTargets(const ListQuery& query) override;
  absl::StatusOr<v1::Worker> getWorker(const std::string& id) override;
  absl::StatusOr<Page<v1::Worker>> listWorkers(const ListQuery& query) override;
  absl::StatusOr<Page<v1::Task>> listTasks(const ListQuery& query) override;
  absl::StatusOr<bool> hasBlob(const std::string& sha256) override;
  absl::StatusOr<int64_t> blobSize(const std::string& sha256) override;
  absl::StatusOr<bool> mayReadBlob(const std::string& project, const std::string& sha256) override;
  absl::StatusOr<Usage> usageOf(const std::string& project) override;
  absl::StatusOr<std::vector<Usage>> usages() override;
  absl::StatusOr<BlobTotals> blobTotals() override;
  absl::StatusOr<std::string> blobBytes(const std::string& sha256) override;
  absl::StatusOr<int64_t> blobBytesSize(const std::string& sha256) override;
  absl::StatusOr<std::vector<RowBlob>> rowBlobsAfter(const std::string& sha256, int limit) override;
  absl::StatusOr<int64_t> rowBlobBytes() override;
  absl::StatusOr<std::vector<StoredToken>> tokens() override;
  absl::StatusOr<std::string> setting(const std::string& name) override;
  absl::StatusOr<bool> isBlobBeingRemoved(const std::string& sha256) override;
  absl::Status forEach(Kind kind, const std::function<absl::Status(const Stored&)>& visit) override;
  absl::StatusOr<int> forEachAfter(Kind kind, const std::string& after, int limit,
                                   const std::function<absl::Status(const Stored&)>& visit) override;
  absl::StatusOr<int64_t> lastUse(Kind kind, const std::string& id) override;
  absl::StatusOr<std::vector<Kind>> usedBefore(const std::string& project, const std::string& name,
                                               int64_t time_us) override;
  absl::StatusOr<bool> isPinned(Kind kind, const std::string& id) override;
  absl::StatusOr<int64_t> eventCount(const std::string& job_id) override;

 protected:
  Database& database_;
  const std::string& token_key_;
};

extern template class SqlReader<Reader>;
extern template class SqlReader<Transaction>;

}  // namespace tessera::storage
