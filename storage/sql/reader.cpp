#include "storage/sql/reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "proto/support/status_macros.h"
#include "storage/entity.h"
#include "storage/sql/queries.h"
#include "storage/sql/queue.h"
#include "storage/sql/rows.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

/// Column 0 of every row, as text.
absl::StatusOr<std::vector<std::string>> texts(Statement statement) {
  std::vector<std::string> found;
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
    if (!row) return found;
    found.emplace_back(statement.bytes(0));
  }
}

absl::StatusOr<std::string> oneText(Statement statement, const std::string& what) {
  TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no ", what));
  return std::string(statement.bytes(0));
}

absl::StatusOr<int64_t> count(Statement statement) {
  TESSERA_RETURN_IF_ERROR(statement.step().status());
  return statement.integer(0);
}

absl::StatusOr<std::vector<Usage>> usagesOf(Statement row) {
  std::vector<Usage> found;
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool more, row.step());
    if (!more) return found;
    found.push_back({std::string(row.bytes(0)), row.integer(1), row.integer(2), row.integer(3), row.integer(4)});
  }
}

/// Minimum number of actions examined per key component.
constexpr int kMinCandidates = 64;

std::string quoted(const char* entity, const std::string& id) { return absl::StrCat(entity, " \"", id, "\""); }

}  // namespace

template <typename Interface>
absl::StatusOr<v1::Job> SqlReader<Interface>::getJob(const std::string& id) {
  return oneMessage<v1::Job>(std::move(database_.prepare(sql::kJob).bind(id)), quoted("job", id));
}

template <typename Interface>
absl::StatusOr<v1::Job> SqlReader<Interface>::getJobByRequestId(const std::string& project,
                                                                const std::string& request_id) {
  return oneMessage<v1::Job>(std::move(database_.prepare(sql::kJobByRequest).bind(project).bind(request_id)),
                             quoted("job of request", request_id));
}

template <typename Interface>
absl::StatusOr<std::string> SqlReader<Interface>::getRequestHash(const std::string& job_id) {
  return oneText(std::move(database_.prepare(sql::kRequestHash).bind(job_id)), quoted("job", job_id));
}

template <typename Interface>
absl::StatusOr<std::string> SqlReader<Interface>::getActionOfJob(const std::string& job_id) {
  return oneText(std::move(database_.prepare(sql::kActionOfJob).bind(job_id)), quoted("job", job_id));
}

template <typename Interface>
absl::StatusOr<Page<v1::Job>> SqlReader<Interface>::listJobs(const ListQuery& query) {
  return pageOf<v1::Job>(database_, token_key_, jobEntity(), query);
}

template <typename Interface>
absl::StatusOr<std::vector<v1::Job>> SqlReader<Interface>::liveJobsOfAction(const std::string& action_id) {
  return allMessages<v1::Job>(std::move(database_.prepare(sql::kLivingJobsOfAction).bind(action_id)));
}

template <typename Interface>
absl::StatusOr<std::string> SqlReader<Interface>::firstLiveJobOfAction(const std::string& action_id) {
  return oneText(std::move(database_.prepare(sql::kFirstLivingJobOfAction).bind(action_id)),
                 quoted("living job of action", action_id));
}

template <typename Interface>
absl::StatusOr<std::vector<std::string>> SqlReader<Interface>::jobsPastQueueDeadline(int64_t now_us) {
  return texts(std::move(database_.prepare(sql::kJobsPastQueueDeadline).bind(now_us)));
}

template <typename Interface>
absl::StatusOr<std::vector<std::string>> SqlReader<Interface>::jobsPastDeadline(int64_t now_us) {
  return texts(std::move(database_.prepare(sql::kJobsPastDeadline).bind(now_us)));
}

template <typename Interface>
absl::StatusOr<std::vector<v1::JobEvent>> SqlReader<Interface>::eventsAfter(const std::string& job_id, int64_t cursor,
                                                                            int limit) {
  return allMessages<v1::JobEvent>(
      std::move(database_.prepare(sql::kEventsAfter).bind(job_id).bind(cursor).bind(std::max(limit, 0))));
}

template <typename Interface>
absl::StatusOr<v1::Action> SqlReader<Interface>::getAction(const std::string& id) {
  return oneMessage<v1::Action>(std::move(database_.prepare(sql::kAction).bind(id)), quoted("action", id));
}

template <typename Interface>
absl::StatusOr<std::vector<v1::Action>> SqlReader<Interface>::liveActionsByKey(const std::string& key) {
  return allMessages<v1::Action>(std::move(database_.prepare(sql::kLivingActionsByKey).bind(key)));
}

template <typename Interface>
absl::StatusOr<v1::Artifact> SqlReader<Interface>::artifactByKey(const std::string& key) {
  return oneMessage<v1::Artifact>(std::move(database_.prepare(sql::kArtifactByKey).bind(key)),
                                  quoted("artifact with key", key));
}

template <typename Interface>
absl::StatusOr<std::vector<v1::Action>> SqlReader<Interface>::nearestActions(
    const std::string& project, const std::vector<v1::KeyComponent>& components, int limit) {
  // All actions share some components, such as the compiler's hash. Candidates are the newest actions of each
  // component; those with the most shared components come first.
  struct Candidate {
    int shared = 0;
    int64_t create_time = 0;
    std::string id;
  };
  std::map<std::string, Candidate> by_id;
  for (const v1::KeyComponent& component : components) {
    Statement row = database_.prepare(sql::kActionsByComponent);
    row.bind(sharedComponent(project, component)).bind(std::max(limit, kMinCandidates));
    while (true) {
      TESSERA_ASSIGN_OR_RETURN(bool more, row.step());
      if (!more) break;
      Candidate& candidate = by_id[std::string(row.bytes(0))];
      ++candidate.shared;
      candidate.create_time = row.integer(1);
      candidate.id = std::string(row.bytes(0));
    }
  }
  std::vector<Candidate> candidates;
  for (auto& [id, candidate] : by_id) candidates.push_back(std::move(candidate));
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.shared, a.create_time, a.id) > std::tie(b.shared, b.create_time, b.id);
  });
  std::vector<v1::Action> actions;
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(actions.size()) >= limit) break;
    absl::StatusOr<v1::Action> action = getAction(candidate.id);
    if (absl::IsNotFound(action.status())) continue;  // actions of earlier releases lack components
    if (!action.ok()) return action.status();
    actions.push_back(*std::move(action));
  }
  return actions;
}

template <typename Interface>
absl::StatusOr<std::vector<v1::SearchEntry>> SqlReader<Interface>::searchLog(const std::string& search_id) {
  return allMessages<v1::SearchEntry>(std::move(database_.prepare(sql::kSearchLog).bind(search_id)));
}

template <typename Interface>
absl::StatusOr<v1::ArtifactRollout> SqlReader<Interface>::getRollout(const std::string& job_id) {
  return oneMessage<v1::ArtifactRollout>(std::move(database_.prepare(sql::kSeries).bind(job_id)),
                                         quoted("artifact of tune job", job_id));
}

template <typename Interface>
absl::StatusOr<std::vector<v1::ArtifactVersion>> SqlReader<Interface>::versionsAfter(const std::string& job_id,
                                                                                     int64_t cursor, int limit) {
  return allMessages<v1::ArtifactVersion>(
      std::move(database_.prepare(sql::kVersionsAfter).bind(job_id).bind(cursor).bind(std::max(limit, 0))));
}

template <typename Interface>
absl::StatusOr<v1::Task> SqlReader<Interface>::getTask(const std::string& id) {
  return oneTask(database_, std::move(database_.prepare(sql::kTask).bind(id)), quoted("task", id));
}

template <typename Interface>
absl::StatusOr<v1::Task> SqlReader<Interface>::liveTaskByKey(const std::string& key) {
  return oneTask(database_, std::move(database_.prepare(sql::kLivingTaskByKey).bind(key)),
                 quoted("living task with key", key));
}

template <typename Interface>
absl::StatusOr<std::vector<std::string>> SqlReader<Interface>::actionsOfTask(const std::string& task_id) {
  return texts(std::move(database_.prepare(sql::kActionsOfTask).bind(task_id)));
}

template <typename Interface>
absl::StatusOr<std::vector<v1::Task>> SqlReader<Interface>::tasksOfAction(const std::string& action_id) {
  return allTasks(database_, std::move(database_.prepare(sql::kTasksOfAction).bind(action_id)));
}

template <typename Interface>
absl::StatusOr<LiveJobs> SqlReader<Interface>::liveJobsOfTask(const std::string& task_id, int most) {
  TESSERA_ASSIGN_OR_RETURN(int64_t all, count(std::move(database_.prepare(sql::kLivingJobCountOfTask).bind(task_id))));
  TESSERA_ASSIGN_OR_RETURN(
      std::vector<std::string> first,
      texts(std::move(database_.prepare(sql::kLivingJobsOfTask).bind(task_id).bind(std::max(most, 0)))));
  return LiveJobs{all, std::move(first)};
}

template <typename Interface>
absl::StatusOr<v1::Task> SqlReader<Interface>::nextReadyTask(const QueueQuery& query) {
  return nextReady(database_, query);
}

template <typename Interface>
absl::StatusOr<std::vector<v1::Task>> SqlReader<Interface>::readySince(v1::TaskKind kind, int64_t since_us, int limit) {
  return readyByAge(database_, kind, since_us, std::max(limit, 0));
}

template <typename Interface>
absl::StatusOr<int> SqlReader<Interface>::queuePosition(const std::string& task_id) {
  Statement task = database_.prepare(sql::kTaskRank);
  TESSERA_ASSIGN_OR_RETURN(bool row, task.bind(task_id).step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no ", quoted("task", task_id)));
  // Only waiting tasks have a position; leased and completed tasks report 0.
  if (task.integer(0) != v1::Task::READY) return 0;
  TESSERA_ASSIGN_OR_RETURN(int64_t ready, count(std::move(database_.prepare(sql::kReadyFrom).bind(task.integer(1)))));
  // The count includes the task itself.
  return static_cast<int>(ready - 1);
}

template <typename Interface>
absl::StatusOr<int64_t> SqlReader<Interface>::queueLength() {
  return count(std::move(database_.prepare(sql::kReadyFrom).bind(std::numeric_limits<int>::min())));
}

template <typename Interface>
absl::StatusOr<std::vector<v1::Task>> SqlReader<Interface>::leasedTasks() {
  return allTasks(database_, database_.prepare(sql::kLeasedTasks));
}

template <typename Interface>
absl::StatusOr<std::vector<QueueDepth>> SqlReader<Interface>::queueDepths() {
  return depths(database_);
}

template <typename Interface>
absl::StatusOr<std::vector<TargetDepth>> SqlReader<Interface>::targetDepths() {
  std::vector<TargetDepth> depths;
  Statement counts = database_.prepare(sql::kTargetDepths);
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(const bool row, counts.step());
    if (!row) return depths;
    depths.push_back({static_cast<v1::TaskKind>(counts.integer(0)), std::string(counts.bytes(1)), counts.integer(2)});
  }
}

template <typename Interface>
absl::StatusOr<BlobTotals> SqlReader<Interface>::blobTotals() {
  Statement totals = database_.prepare(sql::kBlobTotals);
  if (absl::StatusOr<bool> row = totals.step(); !row.ok()) return row.status();
  return BlobTotals{totals.integer(0), totals.integer(1)};
}

template <typename Interface>
absl::StatusOr<v1::Digest> SqlReader<Interface>::getObject(const std::string& build_key) {
  Statement object = database_.prepare(sql::kObject);
  TESSERA_ASSIGN_OR_RETURN(bool row, object.bind(build_key).step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no ", quoted("object with build key", build_key)));
  v1::Digest digest;
  digest.set_sha256(std::string(object.bytes(0)));
  digest.set_size_bytes(object.integer(1));
  return digest;
}

template <typename Interface>
absl::StatusOr<v1::Reproduction> SqlReader<Interface>::getReproduction(const std::string& key) {
  return oneMessage<v1::Reproduction>(std::move(database_.prepare(sql::kReproduction).bind(key)),
                                      quoted("reproduction", key));
}

template <typename Interface>
absl::StatusOr<v1::Artifact> SqlReader<Interface>::getArtifact(const std::string& project, const std::string& id) {
  return oneMessage<v1::Artifact>(std::move(database_.prepare(sql::kArtifact).bind(storedKey(project, id))),
                                  quoted("artifact", id));
}

template <typename Interface>
absl::StatusOr<Page<v1::Artifact>> SqlReader<Interface>::listArtifacts(const ListQuery& query) {
  return pageOf<v1::Artifact>(database_, token_key_, artifactEntity(), query);
}

template <typename Interface>
absl::StatusOr<Page<v1::TuningRecord>> SqlReader<Interface>::listRecords(const ListQuery& query) {
  return pageOf<v1::TuningRecord>(database_, token_key_, recordEntity(), query);
}

template <typename Interface>
absl::StatusOr<v1::Target> SqlReader<Interface>::getTarget(const std::string& project, const std::string& name) {
  return oneMessage<v1::Target>(std::move(database_.prepare(sql::kTarget).bind(storedKey(project, name)).bind(project)),
                                quoted("target", name));
}

template <typename Interface>
absl::StatusOr<Page<StoredTarget>> SqlReader<Interface>::listTargets(const ListQuery& query) {
  // Every order includes the project, so it is a column of every row.
  const auto read = [](const Statement& row, const ListPlan& plan) -> absl::StatusOr<StoredTarget> {
    TESSERA_ASSIGN_OR_RETURN(v1::Target target, messageOf<v1::Target>(row));
    int column = 1;
    while (plan.order[static_cast<size_t>(column - 1)].field->name != "project") ++column;
    return StoredTarget{std::move(target), std::string(row.bytes(column))};
  };
  return pageOf<StoredTarget>(database_, token_key_, targetEntity(), query, read);
}

template <typename Interface>
absl::StatusOr<v1::Worker> SqlReader<Interface>::getWorker(const std::string& id) {
  return oneMessage<v1::Worker>(std::move(database_.prepare(sql::kWorker).bind(id)), quoted("worker", id));
}

template <typename Interface>
absl::StatusOr<Page<v1::Worker>> SqlReader<Interface>::listWorkers(const ListQuery& query) {
  return pageOf<v1::Worker>(database_, token_key_, workerEntity(), query);
}

template <typename Interface>
absl::StatusOr<Page<v1::Task>> SqlReader<Interface>::listTasks(const ListQuery& query) {
  return pageOf<v1::Task>(database_, token_key_, taskEntity(), query,
                          [this](const Statement& row, const ListPlan&) { return taskOf(database_, row); });
}

template <typename Interface>
absl::StatusOr<bool> SqlReader<Interface>::hasBlob(const std::string& sha256) {
  return database_.prepare(sql::kBlobSize).bind(sha256).step();
}

template <typename Interface>
absl::StatusOr<int64_t> SqlReader<Interface>::blobSize(const std::string& sha256) {
  Statement size = database_.prepare(sql::kBlobSize);
  TESSERA_ASSIGN_OR_RETURN(bool row, size.bind(sha256).step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no blob \"", sha256, "\"; upload it first"));
  return size.integer(0);
}

template <typename Interface>
absl::StatusOr<std::string> SqlReader<Interface>::blobBytes(const std::string& sha256) {
  return oneText(std::move(database_.prepare(sql::kBlobBytes).bind(sha256)), quoted("row of bytes of blob", sha256));
}

template <typename Interface>
absl::StatusOr<int64_t> SqlReader<Interface>::blobBytesSize(const std::string& sha256) {
  Statement size = database_.prepare(sql::kBlobBytesSize);
  TESSERA_ASSIGN_OR_RETURN(bool row, size.bind(sha256).step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no ", quoted("row of bytes of blob", sha256)));
  return size.integer(0);
}

template <typename Interface>
absl::StatusOr<std::vector<RowBlob>> SqlReader<Interface>::rowBlobsAfter(const std::string& sha256, int limit) {
  std::vector<RowBlob> found;
  Statement rows = database_.prepare(sql::kRowBlobsAfter);
  rows.bind(sha256).bind(limit);
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, rows.step());
    if (!row) return found;
    found.push_back({std::string(rows.bytes(0)), rows.integer(1), rows.integer(2)});
  }
}

template <typename Interface>
absl::StatusOr<int64_t> SqlReader<Interface>::rowBlobBytes() {
  return count(database_.prepare(sql::kRowBlobBytes));
}

template <typename Interface>
absl::StatusOr<bool> SqlReader<Interface>::mayReadBlob(const std::string& project, const std::string& sha256) {
  return database_.prepare(sql::kBlobReference).bind(project).bind(sha256).step();
}

template <typename Interface>
absl::StatusOr<Usage> SqlReader<Interface>::usageOf(const std::string& project) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<Usage> found, usagesOf(std::move(database_.prepare(sql::kUsage).bind(project))));
  return found.empty() ? Usage{project} : found.front();
}

template <typename Interface>
absl::StatusOr<std::vector<Usage>> SqlReader<Interface>::usages() {
  return usagesOf(database_.prepare(sql::kUsages));
}

template <typename Interface>
absl::StatusOr<std::vector<StoredToken>> SqlReader<Interface>::tokens() {
  std::vector<StoredToken> found;
  Statement statement = database_.prepare(sql::kTokens);
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
    if (!row) return found;
    TESSERA_ASSIGN_OR_RETURN(v1::AccessToken token, messageOf<v1::AccessToken>(statement));
    found.push_back({std::move(token), std::string(statement.bytes(1))});
  }
}

template <typename Interface>
absl::StatusOr<std::string> SqlReader<Interface>::setting(const std::string& name) {
  Statement value = database_.prepare(sql::kSetting);
  TESSERA_ASSIGN_OR_RETURN(const bool row, value.bind(name).step());
  return row ? std::string(value.bytes(0)) : "";
}

template <typename Interface>
absl::StatusOr<bool> SqlReader<Interface>::isBlobBeingRemoved(const std::string& sha256) {
  Statement lost = database_.prepare(sql::kBlobLost);
  TESSERA_ASSIGN_OR_RETURN(const bool row, lost.bind(sha256).step());
  return row && lost.integer(0) == 2;
}

template class SqlReader<Reader>;
template class SqlReader<Transaction>;

}  // namespace tessera::storage
