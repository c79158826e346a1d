// Queries and deletions of garbage collections.
#include <map>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "storage/sql/queries.h"
#include "storage/sql/rows.h"
#include "storage/sql/transaction.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

struct KindQueries {
  const char* all;       ///< id and time, then the body, or SHA-256 and size
  const char* key;       ///< column of the id; of a blob reference, that of its second part
  const char* last_use;  ///< null: the kind has no last use
  const char* touch;
  const char* erase;  ///< null: deletion needs several statements
};

const KindQueries* queriesOf(Kind kind) {
  static const std::map<Kind, KindQueries> kQueries = {
      {Kind::kJob, {sql::kAllJobs, "id", nullptr, nullptr, nullptr}},
      {Kind::kAction, {sql::kAllActions, "id", nullptr, nullptr, nullptr}},
      {Kind::kTask, {sql::kAllTasks, "id", nullptr, nullptr, nullptr}},
      {Kind::kArtifact, {sql::kAllArtifacts, "id", sql::kArtifactUse, sql::kTouchArtifact, nullptr}},
      {Kind::kObject, {sql::kAllObjects, "build_key", sql::kObjectUse, sql::kTouchObject, sql::kEraseObject}},
      {Kind::kRecord, {sql::kAllRecords, "id", nullptr, nullptr, sql::kEraseRecord}},
      {Kind::kBlob, {sql::kAllBlobs, "sha256", sql::kBlobUse, sql::kTouchBlob, sql::kEraseBlob}},
      {Kind::kBlobReference, {sql::kAllHolds, "sha256", sql::kBlobReference, sql::kTouchHold, sql::kEraseHold}},
      {Kind::kTarget, {nullptr, nullptr, nullptr, nullptr, sql::kEraseTarget}},
      {Kind::kWorker, {nullptr, nullptr, nullptr, nullptr, sql::kEraseWorker}},
  };
  const auto found = kQueries.find(kind);
  return found == kQueries.end() ? nullptr : &found->second;
}

/// Binds the key: for a hold, project and SHA-256 of the blob; otherwise the id.
Statement& bindKey(Statement& statement, Kind kind, const std::string& id) {
  if (kind != Kind::kBlobReference) return statement.bind(id);
  const size_t slash = id.find('/');
  return statement.bind(id.substr(0, slash)).bind(slash == std::string::npos ? "" : id.substr(slash + 1));
}

absl::Status notOf(Kind kind, const char* what) {
  return absl::FailedPreconditionError(absl::StrCat("items of kind ", static_cast<int>(kind), " have no ", what));
}

template <typename Message>
absl::StatusOr<int> visitAll(Database& database, Statement rows, Kind kind,
                             const std::function<absl::Status(const Stored&)>& visit) {
  Message message;
  for (int visited = 0;; ++visited) {
    TESSERA_ASSIGN_OR_RETURN(bool row, rows.step());
    if (!row) return visited;
    Stored stored{kind, std::string(rows.bytes(0)), rows.integer(1), &message};
    if constexpr (std::is_same_v<Message, v1::Digest>) {
      message.set_sha256(std::string(rows.bytes(2)));
      message.set_size_bytes(rows.integer(3));
    } else {
      const std::string_view body = rows.bytes(2);
      if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
        return absl::DataLossError(
            absl::StrCat("the stored ", message.GetTypeName(), " ", stored.id, " cannot be read; restore a backup"));
      }
    }
    if constexpr (std::is_same_v<Message, v1::Task>) {
      TESSERA_RETURN_IF_ERROR(addParts(database, message));
    }
    TESSERA_RETURN_IF_ERROR(visit(stored));
  }
}

absl::StatusOr<int> visitRows(Database& database, Statement rows, Kind kind,
                              const std::function<absl::Status(const Stored&)>& visit) {
  switch (kind) {
    case Kind::kJob:
      return visitAll<v1::Job>(database, std::move(rows), kind, visit);
    case Kind::kAction:
      return visitAll<v1::Action>(database, std::move(rows), kind, visit);
    case Kind::kTask:
      return visitAll<v1::Task>(database, std::move(rows), kind, visit);
    case Kind::kArtifact:
      return visitAll<v1::Artifact>(database, std::move(rows), kind, visit);
    case Kind::kRecord:
      return visitAll<v1::TuningRecord>(database, std::move(rows), kind, visit);
    default:
      return visitAll<v1::Digest>(database, std::move(rows), kind, visit);
  }
}

}  // namespace

template <typename Interface>
absl::Status SqlReader<Interface>::forEach(Kind kind, const std::function<absl::Status(const Stored&)>& visit) {
  const KindQueries* queries = queriesOf(kind);
  if (queries == nullptr || queries->all == nullptr) return notOf(kind, "list of all");
  return visitRows(database_, database_.prepareOnce(queries->all), kind, visit).status();
}

template <typename Interface>
absl::StatusOr<int> SqlReader<Interface>::forEachAfter(Kind kind, const std::string& after, int limit,
                                                       const std::function<absl::Status(const Stored&)>& visit) {
  const KindQueries* queries = queriesOf(kind);
  if (queries == nullptr || queries->all == nullptr) return notOf(kind, "list of all");
  const bool two = kind == Kind::kBlobReference;
  const std::string key = two ? absl::StrCat("project, ", queries->key) : queries->key;
  Statement rows = database_.prepareOnce(
      absl::StrCat(queries->all, " WHERE (", key, two ? ") > (?, ?)" : ") > (?)", " ORDER BY ", key, " LIMIT ?"));
  bindKey(rows, kind, after).bind(limit);
  return visitRows(database_, std::move(rows), kind, visit);
}

template <typename Interface>
absl::StatusOr<int64_t> SqlReader<Interface>::lastUse(Kind kind, const std::string& id) {
  const KindQueries* queries = queriesOf(kind);
  if (queries == nullptr || queries->last_use == nullptr) return notOf(kind, "last use");
  Statement row = database_.prepare(queries->last_use);
  TESSERA_ASSIGN_OR_RETURN(bool found, bindKey(row, kind, id).step());
  if (!found) return absl::NotFoundError(absl::StrCat("there is no \"", id, "\""));
  return row.integer(0);
}

template <typename Interface>
absl::StatusOr<std::vector<Kind>> SqlReader<Interface>::usedBefore(const std::string& project, const std::string& name,
                                                                   int64_t time_us) {
  std::vector<Kind> kinds;
  Statement rows = database_.prepare(sql::kUsedBefore);
  rows.bind(name).bind(project).bind(storedKey(project, name)).bind(time_us);
  rows.bind(static_cast<int>(Kind::kBlob))
      .bind(static_cast<int>(Kind::kBlobReference))
      .bind(static_cast<int>(Kind::kArtifact));
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool found, rows.step());
    if (!found) return kinds;
    kinds.push_back(static_cast<Kind>(rows.integer(0)));
  }
}

template <typename Interface>
absl::StatusOr<bool> SqlReader<Interface>::isPinned(Kind kind, const std::string& id) {
  return database_.prepare(sql::kPin).bind(static_cast<int>(kind)).bind(id).step();
}

template <typename Interface>
absl::StatusOr<int64_t> SqlReader<Interface>::eventCount(const std::string& job_id) {
  Statement row = database_.prepare(sql::kEventCount);
  TESSERA_RETURN_IF_ERROR(row.bind(job_id).step().status());
  return row.integer(0);
}

absl::Status SqlTransaction::erase(Kind kind, const std::string& id) {
  if (kind == Kind::kJob) return eraseJob(id);
  if (kind == Kind::kAction) {
    Statement job = database_.prepare(sql::kAnyJobOfAction);
    TESSERA_ASSIGN_OR_RETURN(bool wanted, job.bind(id).step());
    return wanted ? notOf(kind, "deletion of their own: they are deleted with their job") : eraseAction(id);
  }
  if (kind == Kind::kArtifact) {
    absl::Status status = database_.prepare(sql::kEraseArtifactKeys).bind(id).run();
    return status.ok() ? database_.prepare(sql::kEraseArtifact).bind(id).run() : status;
  }
  if (kind == Kind::kBlob) {
    TESSERA_RETURN_IF_ERROR(database_.prepare(sql::kEraseHolds).bind(id).run());
  }
  const KindQueries* queries = queriesOf(kind);
  if (queries == nullptr || queries->erase == nullptr)
    return notOf(kind, "deletion of their own: they are deleted with their job");
  Statement erase = database_.prepare(queries->erase);
  return bindKey(erase, kind, id).run();
}

absl::Status SqlTransaction::eraseEvents(const std::string& job_id) {
  return database_.prepare(sql::kEraseEvents).bind(job_id).run();
}

absl::Status SqlTransaction::eraseJob(const std::string& id) {
  absl::StatusOr<std::string> action = getActionOfJob(id);
  if (absl::IsNotFound(action.status())) return absl::OkStatus();
  if (!action.ok()) return action.status();
  absl::Status status = eraseEvents(id);
  for (const char* sql : {sql::kEraseVersions, sql::kEraseSeries})
    if (status.ok()) status = database_.prepare(sql).bind(id).run();
  if (status.ok()) status = database_.prepare(sql::kEraseJob).bind(id).run();
  if (!status.ok() || action->empty()) return status;
  Statement other = database_.prepare(sql::kAnyJobOfAction);
  TESSERA_ASSIGN_OR_RETURN(bool wanted, other.bind(*action).step());
  return wanted ? absl::OkStatus() : eraseAction(*action);
}

absl::Status SqlTransaction::eraseAction(const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, tasksOfAction(id));
  absl::Status status = database_.prepare(sql::kEraseLinks).bind(id).run();
  for (const v1::Task& task : tasks) {
    if (!status.ok()) return status;
    TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> others, actionsOfTask(task.id()));
    if (others.empty()) status = database_.prepare(sql::kEraseTask).bind(task.id()).run();
  }
  if (status.ok()) status = database_.prepare(sql::kEraseLog).bind(id).run();
  const absl::StatusOr<v1::Action> action = getAction(id);
  if (status.ok() && !absl::IsNotFound(action.status())) status = action.status();
  if (!status.ok()) return status;
  for (int i = 0; status.ok() && action.ok() && i < action->components_size(); ++i) {
    status = database_.prepare(sql::kEraseComponent)
                 .bind(sharedComponent(projectOf(*action), action->components(i)))
                 .bind(action->create_time_us())
                 .bind(id)
                 .run();
  }
  return status.ok() ? database_.prepare(sql::kEraseAction).bind(id).run() : status;
}

absl::Status SqlTransaction::touch(Kind kind, const std::string& id, int64_t time_us) {
  const KindQueries* queries = queriesOf(kind);
  if (queries == nullptr || queries->touch == nullptr) return notOf(kind, "last use");
  Statement touch = database_.prepare(queries->touch);
  touch.bind(time_us);
  return bindKey(touch, kind, id).bind(time_us).run();
}

absl::Status SqlTransaction::setPin(Kind kind, const std::string& id, bool pinned) {
  return database_.prepare(pinned ? sql::kPutPin : sql::kErasePin).bind(static_cast<int>(kind)).bind(id).run();
}

template absl::Status SqlReader<Reader>::forEach(Kind, const std::function<absl::Status(const Stored&)>&);
template absl::Status SqlReader<Transaction>::forEach(Kind, const std::function<absl::Status(const Stored&)>&);
template absl::StatusOr<int> SqlReader<Reader>::forEachAfter(Kind, const std::string&, int,
                                                             const std::function<absl::Status(const Stored&)>&);
template absl::StatusOr<int> SqlReader<Transaction>::forEachAfter(Kind, const std::string&, int,
                                                                  const std::function<absl::Status(const Stored&)>&);
template absl::StatusOr<int64_t> SqlReader<Reader>::lastUse(Kind, const std::string&);
template absl::StatusOr<int64_t> SqlReader<Transaction>::lastUse(Kind, const std::string&);
template absl::StatusOr<std::vector<Kind>> SqlReader<Reader>::usedBefore(const std::string&, const std::string&,
                                                                         int64_t);
template absl::StatusOr<std::vector<Kind>> SqlReader<Transaction>::usedBefore(const std::string&, const std::string&,
                                                                              int64_t);
template absl::StatusOr<bool> SqlReader<Reader>::isPinned(Kind, const std::string&);
template absl::StatusOr<bool> SqlReader<Transaction>::isPinned(Kind, const std::string&);
template absl::StatusOr<int64_t> SqlReader<Reader>::eventCount(const std::string&);
template absl::StatusOr<int64_t> SqlReader<Transaction>::eventCount(const std::string&);

}  // namespace tessera::storage
