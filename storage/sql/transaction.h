#pragma once

#include <utility>

#include "storage/sql/reader.h"

namespace tessera::storage {

class SqlTransaction : public SqlReader<Transaction> {
 public:
  using SqlReader::SqlReader;

  absl::Status insertJob(const v1::Job& job, const std::string& request_hash, const std::string& action_id) override;
  absl::Status updateJob(const v1::Job& job) override;
  absl::StatusOr<int64_t> appendEvent(v1::JobEvent event) override;
  absl::Status putAction(const v1::Action& action) override;
  absl::Status appendToSearch(const std::string& search_id, const v1::SearchEntry& entry) override;
  absl::Status putRollout(const v1::ArtifactRollout& series) override;
  absl::Status putVersion(const v1::ArtifactVersion& version) override;
  absl::Status putTask(const v1::Task& task) override;
  absl::StatusOr<v1::Task> claimReadyTask(const QueueQuery& query) override;
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
  void announceLastWrite() override { database_.announceLastWrite(); }
  void notify(Notice notice) override { notice_ = std::move(notice); }
  /// Returns and clears the notice of the current transaction.
  Notice takeNotice() { return std::exchange(notice_, {}); }

 private:
  absl::Status eraseJob(const std::string& id);
  absl::Status eraseAction(const std::string& id);

  Notice notice_;
};

}  // namespace tessera::storage
