#pragma once

#include <string>
#include <utility>
#include <vector>

#include "storage/memory/tables.h"
#include "storage/store.h"

namespace tessera::storage {

/// Reads and writes of a memory store. Writes can be undone until the undo log is cleared.
class MemoryTransaction : public Transaction {
 public:
  explicit MemoryTransaction(Tables& tables) : tables_(tables) {}

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
  absl::StatusOr<std::vector<std::string>> actionsOfTask(const std::string& task_id) override;
  absl::StatusOr<std::vector<v1::Task>> tasksOfAction(const std::string& action_id) override;
  absl::StatusOr<LiveJobs> liveJobsOfTask(const std::string& task_id, int most) override;
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

  absl::Status insertJob(const v1::Job& job, const std::string& request_hash, const std::string& action_id) override;
  absl::Status updateJob(const v1::Job& job) override;
  absl::StatusOr<int64_t> appendEvent(v1::JobEvent event) override;
  absl::Status putAction(const v1::Action& action) override;
  absl::Status appendToSearch(const std::string& search_id, const v1::SearchEntry& entry) override;
  absl::Status putRollout(const v1::ArtifactRollout& series) override;
  absl::Status putVersion(const v1::ArtifactVersion& version) override;
  absl::Status putTask(const v1::Task& task) override;
  absl::StatusOr<int64_t> nextTicket(int priority, const std::string& client) override;
  absl::StatusOr<int64_t> takeTicket(int priority, const std::string& client) override;
  absl::Status ticketServed(int priority, int64_t turn) override;
  absl::Status linkTask(const std::string& action_id, const std::string& task_id) override;
  absl::Status putObject(const std::string& build_key, const v1::Digest& object) override;
  absl::Status putReproduction(const std::string& key, const v1::Reproduction& reproduction) override;
  absl::Status putArtifact(const v1::Artifact& artifact) override;
  absl::Status putRecord(const v1::TuningRecord& record) override;
  absl::StatusOr<bool> mergeRecord(v1::TuningRecord record) override;
  absl::Status putTarget(const std::string& project, const v1::Target& target) override;
  absl::Status putWorker(const v1::Worker& worker) override;
  absl::Status putBlob(const v1::Digest& digest, const std::string& project, int64_t time_us) override;
  absl::Status markBlobLost(const std::string& sha256) override;
  absl::Status beginBlobRemoval(const std::string& sha256) override;
  absl::Status putBlobBytes(const std::string& sha256, std::string_view bytes, int64_t time_s) override;
  absl::Status eraseBlobBytes(const std::string& sha256) override;
  absl::Status putToken(const StoredToken& token) override;
  absl::Status putSetting(const std::string& name, std::string_view value) override;
  absl::Status erase(Kind kind, const std::string& id) override;
  absl::Status eraseEvents(const std::string& job_id) override;
  absl::Status touch(Kind kind, const std::string& id, int64_t time_us) override;
  absl::Status setPin(Kind kind, const std::string& id, bool pinned) override;
  void notify(Notice notice) override { notice_ = std::move(notice); }
  const Notice& notice() const { return notice_; }

 private:
  void indexJob(const Tables::JobRow& row, bool present);
  void indexTask(const Tables::TaskRow& row, bool present);
  void indexAction(const Tables::ActionRow& row, bool present);
  template <typename Row>
  void eraseNumbered(Table<std::pair<std::string, int64_t>, Row>& table, const std::string& id);
  void eraseJob(const std::string& id);
  void eraseAction(const std::string& id);
  void eraseTask(const std::string& id);

  Tables& tables_;
  Notice notice_;
};

}  // namespace tessera::storage
