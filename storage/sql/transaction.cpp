#include "storage/sql/transaction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/columns.h"
#include "storage/sql/queries.h"
#include "storage/sql/queue.h"
#include "storage/sql/rows.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

/// Binds the columns that can change, in the order of kInsertJob and kUpdateJob.
Statement& bindColumns(Statement& statement, const v1::Job& job) {
  return statement.bind(job.state())
      .bind(job.spec_case())
      .bind(targetNameOf(job))
      .bind(modelOf(job).name())
      .bind(job.action_key())
      .bind(job.cached())
      .bind(job.priority())
      .bind(job.create_time_us())
      .bind(job.end_time_us())
      .bind(job.queue_deadline_us())
      .bind(job.deadline_us())
      .bindBlob(job.SerializeAsString());
}

/// Binds the columns in the order of `sql`, then the serialized entity, and runs the statement.
template <typename Entity, typename... Columns>
absl::Status put(Database& database, const char* sql, const Entity& entity, const Columns&... columns) {
  Statement statement = database.prepare(sql);
  (statement.bind(columns), ...);
  return statement.bindBlob(entity.SerializeAsString()).run();
}

absl::Status needId(const std::string& id, const char* field) {
  if (!id.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is empty; every stored entity needs one"));
}

}  // namespace

absl::Status SqlTransaction::insertJob(const v1::Job& job, const std::string& request_hash,
                                       const std::string& action_id) {
  TESSERA_RETURN_IF_ERROR(needId(job.id(), "Job.id"));
  Statement insert = database_.prepare(sql::kInsertJob);
  insert.bind(job.id()).bind(job.request_id()).bind(request_hash);
  if (action_id.empty()) {
    insert.bindNull();
  } else {
    insert.bind(action_id);
  }
  absl::Status status = bindColumns(insert, job).bind(projectOf(job)).bind(labelsText(job)).run();
  if (!status.ok() || (job.state() != v1::Job::QUEUED && job.state() != v1::Job::RUNNING)) return status;
  return database_.prepare(sql::kCountLivingJob)
      .bind(projectOf(job))
      .bind(job.state() == v1::Job::QUEUED)
      .bind(job.state() == v1::Job::RUNNING)
      .run();
}

absl::Status SqlTransaction::updateJob(const v1::Job& job) {
  Statement update = database_.prepare(sql::kUpdateJob);
  absl::Status status = bindColumns(update, job).bind(job.id()).run();
  if (status.ok() && database_.changes() == 0) {
    return absl::NotFoundError(absl::StrCat("there is no job \"", job.id(), "\" to update"));
  }
  return status;
}

absl::StatusOr<int64_t> SqlTransaction::appendEvent(v1::JobEvent event) {
  Statement last = database_.prepare(sql::kLastSequence);
  TESSERA_ASSIGN_OR_RETURN(const bool row, last.bind(event.job_id()).step());
  if (!row) return absl::NotFoundError(absl::StrCat("there is no job \"", event.job_id(), "\" to append an event to"));
  const int64_t sequence = last.integer(0) + 1;  // max() of no rows is NULL, which reads as 0
  event.set_sequence(sequence);
  absl::Status status = put(database_, sql::kInsertEvent, event, event.job_id(), sequence);
  // The foreign key failed: there is no such job.
  if (absl::IsFailedPrecondition(status)) {
    return absl::NotFoundError(absl::StrCat("there is no job \"", event.job_id(), "\" to append an event to"));
  }
  if (!status.ok()) return status;
  return sequence;
}

absl::Status SqlTransaction::putAction(const v1::Action& action) {
  TESSERA_RETURN_IF_ERROR(needId(action.id(), "Action.id"));
  const auto write = [&](const char* sql) {
    return put(database_, sql, action, action.id(), action.key(), action.state(), action.create_time_us());
  };
  // Project, components and creation time never change, so they are written on insertion only.
  absl::Status status = write(sql::kUpdateAction);
  if (!status.ok() || database_.changes() > 0) return status;
  status = write(sql::kInsertAction);
  for (const v1::KeyComponent& component : action.components()) {
    if (!status.ok()) return status;
    status = database_.prepare(sql::kPutComponent)
                 .bind(sharedComponent(projectOf(action), component))
                 .bind(action.create_time_us())
                 .bind(action.id())
                 .run();
  }
  return status;
}

absl::Status SqlTransaction::appendToSearch(const std::string& search_id, const v1::SearchEntry& entry) {
  Statement last = database_.prepare(sql::kLastEntry);
  TESSERA_RETURN_IF_ERROR(last.bind(search_id).step().status());
  return put(database_, sql::kAppendEntry, entry, search_id, last.integer(0) + 1);
}

absl::Status SqlTransaction::putRollout(const v1::ArtifactRollout& series) {
  return put(database_, sql::kPutSeries, series, series.job_id());
}

absl::Status SqlTransaction::putVersion(const v1::ArtifactVersion& version) {
  return put(database_, sql::kPutVersion, version, version.job_id(), version.number());
}

absl::Status SqlTransaction::putTask(const v1::Task& task) {
  TESSERA_RETURN_IF_ERROR(needId(task.id(), "Task.id"));
  // Store the constant parts separately, so that a heartbeat rewrites only the small row.
  v1::Task row = task, spec, result;
  if (row.has_spec()) spec.mutable_spec()->Swap(row.mutable_spec());
  if (row.has_result()) result.mutable_result()->Swap(row.mutable_result());
  row.clear_spec();
  row.clear_result();
  absl::Status status = put(database_, sql::kPutTask, row, task.id(), task.key(), task.state(), task.spec().kind(),
                            task.priority(), task.ticket(), task.ready_time_us(), projectOf(task), task.worker_id(),
                            task.create_time_us(), task.attempt() == 0, task.target());
  int number = 0;
  for (const v1::Task* part : {&spec, &result}) {
    ++number;
    if (!status.ok()) return status;
    status = part->has_spec() || part->has_result()
                 ? put(database_, sql::kPutTaskPart, *part, task.id(), number)
                 : database_.prepare(sql::kEraseTaskPart).bind(task.id()).bind(number).run();
  }
  return status;
}

absl::StatusOr<v1::Task> SqlTransaction::claimReadyTask(const QueueQuery& query) {
  return claimReady(database_, query);
}

absl::StatusOr<int64_t> SqlTransaction::nextTicket(int priority, const std::string& client) {
  int64_t turn = 0;
  Statement served = database_.prepare(sql::kTurnServed);
  absl::StatusOr<bool> row = served.bind(priority).step();
  if (!row.ok()) return row.status();
  if (*row) turn = served.integer(0);
  Statement last = database_.prepare(sql::kTurnOfClient);
  row = last.bind(priority).bind(client).step();
  if (!row.ok()) return row.status();
  if (*row) turn = std::max(turn, last.integer(0));
  return turn + 1;
}

absl::StatusOr<int64_t> SqlTransaction::takeTicket(int priority, const std::string& client) {
  absl::StatusOr<int64_t> turn = nextTicket(priority, client);
  if (!turn.ok()) return turn;
  TESSERA_RETURN_IF_ERROR(database_.prepare(sql::kPutTurn).bind(priority).bind(client).bind(*turn).run());
  return turn;
}

absl::Status SqlTransaction::ticketServed(int priority, int64_t turn) {
  absl::Status status = database_.prepare(sql::kPutServed).bind(priority).bind(turn).run();
  // Forget clients whose tickets are not ahead of the head; their next ticket starts at the head.
  if (status.ok()) status = database_.prepare(sql::kForgetTurns).bind(priority).bind(turn).run();
  return status;
}

absl::Status SqlTransaction::linkTask(const std::string& action_id, const std::string& task_id) {
  return database_.prepare(sql::kLinkTask).bind(action_id).bind(task_id).run();
}

absl::Status SqlTransaction::putObject(const std::string& build_key, const v1::Digest& object) {
  TESSERA_RETURN_IF_ERROR(needId(build_key, "build_key"));
  return database_.prepare(sql::kPutObject).bind(build_key).bind(object.sha256()).bind(object.size_bytes()).run();
}

absl::Status SqlTransaction::putReproduction(const std::string& key, const v1::Reproduction& reproduction) {
  TESSERA_RETURN_IF_ERROR(needId(key, "key"));
  const std::string object = reproduction.witnesses().empty() ? "" : reproduction.witnesses(0).object().sha256();
  return put(database_, sql::kPutReproduction, reproduction, key, object);
}

absl::Status SqlTransaction::putArtifact(const v1::Artifact& artifact) {
  TESSERA_RETURN_IF_ERROR(needId(artifact.id(), "Artifact.id"));
  const std::string project = projectOf(artifact), key = storedKey(project, artifact.id());
  absl::Status status = put(database_, sql::kPutArtifact, artifact, key, artifact.id(), artifact.manifest().name(),
                            artifact.manifest().target_name(), artifact.manifest().model_sha256(), artifact.job_id(),
                            artifact.create_time_us(), project);
  if (!status.ok() || artifact.action_key().empty()) return status;
  return database_.prepare(sql::kPutArtifactKey)
      .bind(artifact.action_key())
      .bind(key)
      .bind(artifact.create_time_us())
      .run();
}

absl::Status SqlTransaction::putTarget(const std::string& project, const v1::Target& target) {
  TESSERA_RETURN_IF_ERROR(needId(target.name(), "Target.name"));
  return put(database_, sql::kPutTarget, target, storedKey(project, target.name()), target.name(), target.summary(),
             target.family(), project);
}

absl::Status SqlTransaction::putWorker(const v1::Worker& worker) {
  TESSERA_RETURN_IF_ERROR(needId(worker.id(), "Worker.id"));
  return put(database_, sql::kPutWorker, worker, worker.id(), worker.state(), worker.host().hostname(),
             worker.compiler_version(), worker.last_seen_us());
}

absl::Status SqlTransaction::putBlob(const v1::Digest& digest, const std::string& project, int64_t time_us) {
  if (!isSha256(digest.sha256())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Digest.sha256: found \"", digest.sha256(), "\"; accepted: 64 lower-case hexadecimal digits"));
  }
  absl::Status status = database_.prepare(sql::kPutBlob).bind(digest.sha256()).bind(digest.size_bytes()).run();
  if (!status.ok() || project.empty()) return status;
  return database_.prepare(sql::kPutHold)
      .bind(project)
      .bind(digest.sha256())
      .bind(digest.size_bytes())
      .bind(time_us)
      .run();
}

absl::Status SqlTransaction::markBlobLost(const std::string& sha256) {
  return database_.prepare(sql::kLoseBlob).bind(sha256).run();
}

absl::Status SqlTransaction::beginBlobRemoval(const std::string& sha256) {
  return database_.prepare(sql::kBeginBlobRemoval).bind(sha256).run();
}

absl::Status SqlTransaction::putSetting(const std::string& name, std::string_view value) {
  return database_.prepare(sql::kPutSetting).bind(name).bindBlob(value).run();
}

absl::Status SqlTransaction::putBlobBytes(const std::string& sha256, std::string_view bytes, int64_t time_s) {
  return database_.prepare(sql::kPutBlobBytes)
      .bind(sha256)
      .bind(static_cast<int64_t>(bytes.size()))
      .bind(time_s)
      .bindBlob(bytes)
      .run();
}

absl::Status SqlTransaction::eraseBlobBytes(const std::string& sha256) {
  return database_.prepare(sql::kEraseBlobBytes).bind(sha256).run();
}

absl::Status SqlTransaction::putToken(const StoredToken& token) {
  TESSERA_RETURN_IF_ERROR(needId(token.token.id(), "AccessToken.id"));
  return put(database_, sql::kPutToken, token.token, token.token.id(), token.sha256);
}

}  // namespace tessera::storage
