#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "storage/memory/list.h"
#include "storage/memory/transaction.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

constexpr const char* kTokenKey = "a memory store's tokens are signed to notice mistakes, not attacks";

absl::Status absent(const char* entity, const std::string& id) {
  return absl::NotFoundError(absl::StrCat("there is no ", entity, " \"", id, "\""));
}

template <typename Row>
absl::StatusOr<Row> rowOf(const Table<std::string, Row>& table, const char* entity, const std::string& id) {
  const Row* row = table.find(id);
  if (row == nullptr) return absent(entity, id);
  return *row;
}

template <typename Message, typename Row>
absl::StatusOr<Message> messageOf(const Table<std::string, Row>& table, Message Row::* message, const char* entity,
                                  const std::string& id) {
  const Row* row = table.find(id);
  if (row == nullptr) return absent(entity, id);
  return row->*message;
}

/// `deadlines`: deadline, row, id.
std::vector<std::string> pastDeadline(const Index<std::tuple<int64_t, int64_t, std::string>>& deadlines,
                                      int64_t now_us) {
  std::vector<std::string> ids;
  for (const auto& [key, present] : deadlines.rows()) {
    if (std::get<0>(key) > now_us) break;
    ids.push_back(std::get<2>(key));
  }
  return ids;
}

const auto kItself = [](const auto& row) -> const auto& { return row; };

}  // namespace

absl::StatusOr<v1::Job> MemoryTransaction::getJob(const std::string& id) {
  return messageOf(tables_.jobs, &Tables::JobRow::job, "job", id);
}

absl::StatusOr<v1::Job> MemoryTransaction::getJobByRequestId(const std::string& project,
                                                             const std::string& request_id) {
  const std::string* id = tables_.job_by_request.find({project, request_id});
  return id == nullptr ? absent("job of request", request_id) : getJob(*id);
}

absl::StatusOr<std::string> MemoryTransaction::getRequestHash(const std::string& job_id) {
  return messageOf(tables_.jobs, &Tables::JobRow::request_hash, "job", job_id);
}

absl::StatusOr<std::string> MemoryTransaction::getActionOfJob(const std::string& job_id) {
  return messageOf(tables_.jobs, &Tables::JobRow::action_id, "job", job_id);
}

absl::StatusOr<Page<v1::Job>> MemoryTransaction::listJobs(const ListQuery& query) {
  return pageOfTable<v1::Job>(tables_.jobs, jobEntity(), query, kTokenKey,
                              [](const Tables::JobRow& row) -> const v1::Job& { return row.job; });
}

absl::StatusOr<std::vector<v1::Job>> MemoryTransaction::liveJobsOfAction(const std::string& action_id) {
  std::vector<v1::Job> jobs;
  for (auto it = tables_.living_jobs.from({action_id, 0, ""});
       it != tables_.living_jobs.rows().end() && std::get<0>(it->first) == action_id; ++it) {
    jobs.push_back(tables_.jobs.find(std::get<2>(it->first))->job);
  }
  return jobs;
}

absl::StatusOr<std::string> MemoryTransaction::firstLiveJobOfAction(const std::string& action_id) {
  const auto it = tables_.living_jobs.from({action_id, 0, ""});
  if (it == tables_.living_jobs.rows().end() || std::get<0>(it->first) != action_id) {
    return absent("living job of action", action_id);
  }
  return std::get<2>(it->first);
}

absl::StatusOr<LiveJobs> MemoryTransaction::liveJobsOfTask(const std::string& task_id, int most) {
  LiveJobs living;
  for (auto link = tables_.actions_of_task.from({task_id, 0, ""});
       link != tables_.actions_of_task.rows().end() && std::get<0>(link->first) == task_id; ++link) {
    const std::string& action_id = std::get<2>(link->first);
    for (auto job = tables_.living_jobs.from({action_id, 0, ""});
         job != tables_.living_jobs.rows().end() && std::get<0>(job->first) == action_id; ++job) {
      if (living.count++ < most) living.first.push_back(std::get<2>(job->first));
    }
  }
  return living;
}

absl::StatusOr<std::vector<std::string>> MemoryTransaction::jobsPastQueueDeadline(int64_t now_us) {
  return pastDeadline(tables_.queue_deadlines, now_us);
}

absl::StatusOr<std::vector<std::string>> MemoryTransaction::jobsPastDeadline(int64_t now_us) {
  return pastDeadline(tables_.deadlines, now_us);
}

absl::StatusOr<std::vector<v1::JobEvent>> MemoryTransaction::eventsAfter(const std::string& job_id, int64_t cursor,
                                                                         int limit) {
  std::vector<v1::JobEvent> events;
  for (auto it = tables_.events.from({job_id, cursor + 1});
       it != tables_.events.rows().end() && it->first.first == job_id && static_cast<int>(events.size()) < limit;
       ++it) {
    events.push_back(*it->second);
  }
  return events;
}

absl::StatusOr<v1::Action> MemoryTransaction::getAction(const std::string& id) {
  return messageOf(tables_.actions, &Tables::ActionRow::action, "action", id);
}

absl::StatusOr<std::vector<v1::Action>> MemoryTransaction::liveActionsByKey(const std::string& key) {
  std::vector<v1::Action> actions;
  for (auto it = tables_.living_actions.from({key, INT64_MIN, 0, ""});
       it != tables_.living_actions.rows().end() && std::get<0>(it->first) == key; ++it) {
    actions.push_back(tables_.actions.find(std::get<3>(it->first))->action);
  }
  return actions;
}

absl::StatusOr<v1::Artifact> MemoryTransaction::artifactByKey(const std::string& key) {
  const Tables::ArtifactKey* artifact = tables_.artifact_keys.find(key);
  return artifact == nullptr ? absent("artifact with key", key)
                             : rowOf(tables_.artifacts, "artifact", artifact->artifact_id);
}

absl::StatusOr<std::vector<v1::Action>> MemoryTransaction::nearestActions(
    const std::string& project, const std::vector<v1::KeyComponent>& components, int limit) {
  struct Candidate {
    int shared = 0;
    int64_t create_time_us = 0;
    std::string id;
  };
  std::map<std::string, Candidate> by_id;
  for (const v1::KeyComponent& component : components) {
    for (auto it = tables_.by_component.from({component.name(), component.hash(), INT64_MIN, ""});
         it != tables_.by_component.rows().end() && std::get<0>(it->first) == component.name() &&
         std::get<1>(it->first) == component.hash();
         ++it) {
      const std::string& id = std::get<3>(it->first);
      if (projectOf(tables_.actions.find(id)->action) != project) continue;
      Candidate& candidate = by_id[id];
      candidate = {candidate.shared + 1, -std::get<2>(it->first), id};
    }
  }
  std::vector<Candidate> candidates;
  for (auto& [id, candidate] : by_id) candidates.push_back(std::move(candidate));
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.shared, a.create_time_us, a.id) > std::tie(b.shared, b.create_time_us, b.id);
  });
  std::vector<v1::Action> actions;
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(actions.size()) >= limit) break;
    actions.push_back(tables_.actions.find(candidate.id)->action);
  }
  return actions;
}

absl::StatusOr<std::vector<v1::SearchEntry>> MemoryTransaction::searchLog(const std::string& search_id) {
  std::vector<v1::SearchEntry> entries;
  for (auto it = tables_.search_log.from({search_id, 0});
       it != tables_.search_log.rows().end() && it->first.first == search_id; ++it) {
    entries.push_back(*it->second);
  }
  return entries;
}

absl::StatusOr<v1::ArtifactRollout> MemoryTransaction::getRollout(const std::string& job_id) {
  const v1::ArtifactRollout* series = tables_.series.find(job_id);
  return series == nullptr ? absent("artifact of tune job", job_id) : absl::StatusOr<v1::ArtifactRollout>(*series);
}

absl::StatusOr<std::vector<v1::ArtifactVersion>> MemoryTransaction::versionsAfter(const std::string& job_id,
                                                                                  int64_t cursor, int limit) {
  std::vector<v1::ArtifactVersion> versions;
  for (auto it = tables_.versions.from({job_id, cursor + 1});
       it != tables_.versions.rows().end() && it->first.first == job_id && static_cast<int>(versions.size()) < limit;
       ++it) {
    versions.push_back(*it->second);
  }
  return versions;
}

absl::StatusOr<v1::Task> MemoryTransaction::getTask(const std::string& id) {
  return messageOf(tables_.tasks, &Tables::TaskRow::task, "task", id);
}

absl::StatusOr<v1::Task> MemoryTransaction::liveTaskByKey(const std::string& key) {
  const auto it = tables_.living_tasks.from({key, INT64_MIN, 0, ""});
  if (it == tables_.living_tasks.rows().end() || std::get<0>(it->first) != key) {
    return absent("living task with key", key);
  }
  return getTask(std::get<3>(it->first));
}

absl::StatusOr<std::vector<std::string>> MemoryTransaction::actionsOfTask(const std::string& task_id) {
  std::vector<std::string> ids;
  for (auto it = tables_.actions_of_task.from({task_id, 0, ""});
       it != tables_.actions_of_task.rows().end() && std::get<0>(it->first) == task_id; ++it) {
    ids.push_back(std::get<2>(it->first));
  }
  return ids;
}

absl::StatusOr<std::vector<v1::Task>> MemoryTransaction::tasksOfAction(const std::string& action_id) {
  std::vector<v1::Task> tasks;
  for (auto it = tables_.tasks_of_action.from({action_id, 0, ""});
       it != tables_.tasks_of_action.rows().end() && std::get<0>(it->first) == action_id; ++it) {
    tasks.push_back(tables_.tasks.find(std::get<2>(it->first))->task);
  }
  return tasks;
}

absl::StatusOr<std::vector<v1::Task>> MemoryTransaction::leasedTasks() {
  std::vector<v1::Task> tasks;
  for (const auto& [id, present] : tables_.leased.rows()) tasks.push_back(tables_.tasks.find(id)->task);
  return tasks;
}

absl::StatusOr<v1::Digest> MemoryTransaction::getObject(const std::string& build_key) {
  return rowOf(tables_.objects, "object with build key", build_key);
}

absl::StatusOr<v1::Reproduction> MemoryTransaction::getReproduction(const std::string& key) {
  return rowOf(tables_.reproductions, "reproduction", key);
}

absl::StatusOr<v1::Artifact> MemoryTransaction::getArtifact(const std::string& project, const std::string& id) {
  const v1::Artifact* artifact = tables_.artifacts.find(storedKey(project, id));
  if (artifact == nullptr) return absent("artifact", id);
  return *artifact;
}

absl::StatusOr<Page<v1::Artifact>> MemoryTransaction::listArtifacts(const ListQuery& query) {
  return pageOfTable<v1::Artifact>(tables_.artifacts, artifactEntity(), query, kTokenKey, kItself);
}

absl::StatusOr<Page<v1::TuningRecord>> MemoryTransaction::listRecords(const ListQuery& query) {
  return pageOfTable<v1::TuningRecord>(tables_.records, recordEntity(), query, kTokenKey, kItself);
}

absl::StatusOr<v1::Target> MemoryTransaction::getTarget(const std::string& project, const std::string& name) {
  const StoredTarget* stored = tables_.targets.find(storedKey(project, name));
  if (stored == nullptr || stored->project != project) return absent("target", name);
  return stored->target;
}

absl::StatusOr<Page<StoredTarget>> MemoryTransaction::listTargets(const ListQuery& query) {
  return pageOfTable<StoredTarget>(tables_.targets, targetEntity(), query, kTokenKey, kItself);
}

absl::StatusOr<v1::Worker> MemoryTransaction::getWorker(const std::string& id) {
  return rowOf(tables_.workers, "worker", id);
}

absl::StatusOr<Page<v1::Worker>> MemoryTransaction::listWorkers(const ListQuery& query) {
  return pageOfTable<v1::Worker>(tables_.workers, workerEntity(), query, kTokenKey, kItself);
}

absl::StatusOr<Page<v1::Task>> MemoryTransaction::listTasks(const ListQuery& query) {
  return pageOfTable<v1::Task>(tables_.tasks, taskEntity(), query, kTokenKey,
                               [](const Tables::TaskRow& row) -> const v1::Task& { return row.task; });
}

absl::StatusOr<bool> MemoryTransaction::hasBlob(const std::string& sha256) { return blobSize(sha256).ok(); }

absl::StatusOr<int64_t> MemoryTransaction::blobSize(const std::string& sha256) {
  const int64_t* size = tables_.lost_blobs.contains(sha256) ? nullptr : tables_.blobs.find(sha256);
  if (size != nullptr) return *size;
  return absl::NotFoundError(absl::StrCat("there is no blob \"", sha256, "\"; upload it first"));
}

absl::StatusOr<bool> MemoryTransaction::isBlobBeingRemoved(const std::string& sha256) {
  return tables_.removed_blobs.contains(sha256);
}

absl::StatusOr<std::string> MemoryTransaction::setting(const std::string& name) {
  const std::string* value = tables_.settings.find(name);
  return value == nullptr ? std::string() : *value;
}

absl::StatusOr<std::string> MemoryTransaction::blobBytes(const std::string& sha256) {
  const auto* row = tables_.blob_bytes.find(sha256);
  if (row != nullptr) return row->first;
  return absl::NotFoundError(absl::StrCat("there is no row of bytes of blob \"", sha256, "\""));
}

absl::StatusOr<int64_t> MemoryTransaction::blobBytesSize(const std::string& sha256) {
  const auto* row = tables_.blob_bytes.find(sha256);
  if (row != nullptr) return static_cast<int64_t>(row->first.size());
  return absl::NotFoundError(absl::StrCat("there is no row of bytes of blob \"", sha256, "\""));
}

absl::StatusOr<std::vector<RowBlob>> MemoryTransaction::rowBlobsAfter(const std::string& sha256, int limit) {
  std::vector<RowBlob> found;
  for (auto row = tables_.blob_bytes.rows().upper_bound(sha256);
       row != tables_.blob_bytes.rows().end() && std::ssize(found) < limit; ++row) {
    found.push_back({row->first, static_cast<int64_t>(row->second->first.size()), row->second->second});
  }
  return found;
}

absl::StatusOr<int64_t> MemoryTransaction::rowBlobBytes() {
  int64_t total = 0;
  for (const auto& [sha256, row] : tables_.blob_bytes.rows()) total += static_cast<int64_t>(row->first.size());
  return total;
}

absl::StatusOr<bool> MemoryTransaction::mayReadBlob(const std::string& project, const std::string& sha256) {
  return tables_.holds.contains({project, sha256});
}

absl::StatusOr<Usage> MemoryTransaction::usageOf(const std::string& project) {
  absl::StatusOr<std::vector<Usage>> all = usages();
  for (const Usage& usage : *all) {
    if (usage.project == project) return usage;
  }
  return Usage{project};
}

absl::StatusOr<std::vector<Usage>> MemoryTransaction::usages() {
  std::map<std::string, Usage> by_project;
  for (const auto& [id, row] : tables_.jobs.rows()) {
    Usage& usage = by_project[projectOf(row->job)];
    usage.queued_jobs += row->job.state() == v1::Job::QUEUED ? 1 : 0;
    usage.running_jobs += row->job.state() == v1::Job::RUNNING ? 1 : 0;
  }
  for (const auto& [key, size] : tables_.holds.rows()) {
    Usage& usage = by_project[key.first];
    ++usage.blobs;
    usage.blob_bytes += *size;
  }
  std::vector<Usage> all;
  for (auto& [project, usage] : by_project) {
    usage.project = project;
    all.push_back(usage);
  }
  return all;
}

absl::StatusOr<BlobTotals> MemoryTransaction::blobTotals() {
  BlobTotals totals;
  for (const auto& [sha256, bytes] : tables_.blobs.rows()) {
    ++totals.blobs;
    totals.bytes += *bytes;
  }
  return totals;
}

absl::StatusOr<std::vector<StoredToken>> MemoryTransaction::tokens() {
  std::vector<StoredToken> found;
  for (const auto& [id, token] : tables_.tokens.rows()) found.push_back(*token);
  return found;
}

}  // namespace tessera::storage
