#include "storage/memory/transaction.h"

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

absl::Status needId(const std::string& id, const char* field) {
  if (!id.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is empty; every stored entity needs one"));
}

absl::Status refersToNothing() {
  return absl::FailedPreconditionError("refers to an entity that is not stored; put that one first");
}

bool isLiving(v1::Job::State state) { return state == v1::Job::QUEUED || state == v1::Job::RUNNING; }

}  // namespace

// The index functions are called twice per change: with the stored row and false, then with the new row and true. Which
// indexes a row belongs to depends on its state, so the old row decides what is removed.
void MemoryTransaction::indexJob(const Tables::JobRow& row, bool present) {
  const v1::Job& job = row.job;
  if (isLiving(job.state()) && !row.action_id.empty()) {
    tables_.living_jobs.set({row.action_id, row.row, job.id()}, present);
  }
  if (job.state() == v1::Job::QUEUED && job.queue_deadline_us() > 0) {
    tables_.queue_deadlines.set({job.queue_deadline_us(), row.row, job.id()}, present);
  }
  if (isLiving(job.state()) && job.deadline_us() > 0) {
    tables_.deadlines.set({job.deadline_us(), row.row, job.id()}, present);
  }
}

absl::Status MemoryTransaction::insertJob(const v1::Job& job, const std::string& request_hash,
                                          const std::string& action_id) {
  TESSERA_RETURN_IF_ERROR(needId(job.id(), "Job.id"));
  if (tables_.jobs.contains(job.id()) ||
      (!job.request_id().empty() && tables_.job_by_request.contains({projectOf(job), job.request_id()}))) {
    return absl::AlreadyExistsError(absl::StrCat("job ", job.id(), " or its request_id is taken"));
  }
  if (!action_id.empty() && !tables_.actions.contains(action_id)) return refersToNothing();
  // The row number replaces SQLite's rowid: it orders rows of equal time as they were inserted.
  const Tables::JobRow row{job, request_hash, action_id, tables_.next_row++};
  tables_.jobs.put(job.id(), row);
  if (!job.request_id().empty()) tables_.job_by_request.put({projectOf(job), job.request_id()}, job.id());
  indexJob(row, true);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::updateJob(const v1::Job& job) {
  const Tables::JobRow* known = tables_.jobs.find(job.id());
  if (known == nullptr) return absl::NotFoundError(absl::StrCat("there is no job \"", job.id(), "\" to update"));
  indexJob(*known, false);
  Tables::JobRow row{job, known->request_hash, known->action_id, known->row};
  indexJob(row, true);
  tables_.jobs.put(job.id(), std::move(row));
  return absl::OkStatus();
}

absl::Status MemoryTransaction::appendToSearch(const std::string& search_id, const v1::SearchEntry& entry) {
  if (!tables_.actions.contains(search_id)) return refersToNothing();
  // The row before the end of this search is its last entry. Entries are numbered from 1.
  auto after = tables_.search_log.from({search_id, INT64_MAX});
  int64_t number = 1;
  if (after != tables_.search_log.rows().begin() && (--after)->first.first == search_id) {
    number = after->first.second + 1;
  }
  tables_.search_log.put({search_id, number}, entry);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putRollout(const v1::ArtifactRollout& series) {
  if (!tables_.jobs.contains(series.job_id())) return refersToNothing();
  tables_.series.put(series.job_id(), series);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putVersion(const v1::ArtifactVersion& version) {
  if (!tables_.jobs.contains(version.job_id())) return refersToNothing();
  tables_.versions.put({version.job_id(), version.number()}, version);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryTransaction::appendEvent(v1::JobEvent event) {
  if (!tables_.jobs.contains(event.job_id())) {
    return absl::NotFoundError(absl::StrCat("there is no job \"", event.job_id(), "\" to append an event to"));
  }
  // As in appendToSearch(): the next number follows the last stored event of this job.
  auto after = tables_.events.from({event.job_id(), INT64_MAX});
  int64_t sequence = 1;
  if (after != tables_.events.rows().begin() && (--after)->first.first == event.job_id()) {
    sequence = after->first.second + 1;
  }
  event.set_sequence(sequence);
  const std::pair<std::string, int64_t> key(event.job_id(), sequence);
  tables_.events.put(key, std::move(event));
  return sequence;
}

void MemoryTransaction::indexAction(const Tables::ActionRow& row, bool present) {
  const v1::Action& action = row.action;
  if (!action.key().empty() && isLiving(action.state())) {
    tables_.living_actions.set({action.key(), action.create_time_us(), row.row, action.id()}, present);
  }
}

absl::Status MemoryTransaction::putAction(const v1::Action& action) {
  TESSERA_RETURN_IF_ERROR(needId(action.id(), "Action.id"));
  const Tables::ActionRow* known = tables_.actions.find(action.id());
  // Creation times are negated so that the newest actions come first.
  for (const v1::KeyComponent& component : action.components()) {
    const std::pair<std::string, std::string> key(action.id(), component.name());
    if (const v1::KeyComponent* before = tables_.components.find(key); before != nullptr && known != nullptr) {
      tables_.by_component.set({before->name(), before->hash(), -known->action.create_time_us(), action.id()}, false);
    }
    tables_.by_component.set({component.name(), component.hash(), -action.create_time_us(), action.id()}, true);
    tables_.components.put(key, component);
  }
  if (known != nullptr) indexAction(*known, false);
  Tables::ActionRow row{action, known != nullptr ? known->row : tables_.next_row++};
  indexAction(row, true);
  tables_.actions.put(action.id(), std::move(row));
  return absl::OkStatus();
}

void MemoryTransaction::indexTask(const Tables::TaskRow& row, bool present) {
  const v1::Task& task = row.task;
  const bool ready = task.state() == v1::Task::READY;
  const bool leased = task.state() == v1::Task::LEASED;
  if (!task.key().empty() && (ready || leased)) {
    tables_.living_tasks.set({task.key(), task.ready_time_us(), row.row, task.id()}, present);
  }
  if (ready) {
    // The order in which tasks are leased: higher priorities first, therefore the sign.
    const Tables::ReadyKey key{
        task.spec().kind(), -int64_t{task.priority()}, task.ticket(), task.ready_time_us(), row.row, task.id()};
    tables_.ready.set(key, present);
    if (present) {
      tables_.ready_by_time.put({key.kind, key.ready_us, key.row, key.id}, key);
    } else {
      tables_.ready_by_time.erase({key.kind, key.ready_us, key.row, key.id});
    }
  }
  if (leased) tables_.leased.set(task.id(), present);
}

absl::Status MemoryTransaction::putTask(const v1::Task& task) {
  TESSERA_RETURN_IF_ERROR(needId(task.id(), "Task.id"));
  const Tables::TaskRow* known = tables_.tasks.find(task.id());
  if (known != nullptr) indexTask(*known, false);
  Tables::TaskRow row{task, known != nullptr ? known->row : tables_.next_row++};
  indexTask(row, true);
  tables_.tasks.put(task.id(), std::move(row));
  return absl::OkStatus();
}

absl::Status MemoryTransaction::linkTask(const std::string& action_id, const std::string& task_id) {
  if (!tables_.actions.contains(action_id) || !tables_.tasks.contains(task_id)) return refersToNothing();
  if (tables_.links.contains({action_id, task_id})) return absl::OkStatus();
  // Both directions are sorted by the time of linking, as SQLite returns them by rowid.
  const int64_t position = tables_.next_row++;
  tables_.links.put({action_id, task_id}, position);
  tables_.tasks_of_action.set({action_id, position, task_id}, true);
  tables_.actions_of_task.set({task_id, position, action_id}, true);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putObject(const std::string& build_key, const v1::Digest& object) {
  TESSERA_RETURN_IF_ERROR(needId(build_key, "build_key"));
  tables_.objects.put(build_key, object);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putReproduction(const std::string& key, const v1::Reproduction& reproduction) {
  TESSERA_RETURN_IF_ERROR(needId(key, "key"));
  tables_.reproductions.put(key, reproduction);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putArtifact(const v1::Artifact& artifact) {
  TESSERA_RETURN_IF_ERROR(needId(artifact.id(), "Artifact.id"));
  const std::string id = storedKey(projectOf(artifact), artifact.id());
  tables_.artifacts.put(id, artifact);
  if (artifact.action_key().empty()) return absl::OkStatus();
  // An action key finds the newest artifact. At equal times the later write wins.
  const Tables::ArtifactKey* known = tables_.artifact_keys.find(artifact.action_key());
  if (known == nullptr || artifact.create_time_us() >= known->create_time_us) {
    tables_.artifact_keys.put(artifact.action_key(), {id, artifact.create_time_us()});
  }
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putTarget(const std::string& project, const v1::Target& target) {
  TESSERA_RETURN_IF_ERROR(needId(target.name(), "Target.name"));
  tables_.targets.put(storedKey(project, target.name()), StoredTarget{target, project});
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putWorker(const v1::Worker& worker) {
  TESSERA_RETURN_IF_ERROR(needId(worker.id(), "Worker.id"));
  tables_.workers.put(worker.id(), worker);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putBlob(const v1::Digest& digest, const std::string& project, int64_t time_us) {
  if (!isSha256(digest.sha256())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Digest.sha256: found \"", digest.sha256(), "\"; accepted: 64 lower-case hexadecimal digits"));
  }
  tables_.blobs.put(digest.sha256(), digest.size_bytes());
  // Whoever records a blob has just stored its content, so a lost blob is found again.
  tables_.lost_blobs.set(digest.sha256(), false);
  tables_.removed_blobs.set(digest.sha256(), false);
  if (project.empty()) return absl::OkStatus();
  // The size of a blob never changes: an existing row needs no write, which the undo log would have to keep.
  if (!tables_.holds.contains({project, digest.sha256()})) {
    tables_.holds.put({project, digest.sha256()}, digest.size_bytes());
  }
  return touch(Kind::kBlobReference, blobReferenceKey(project, digest.sha256()), time_us);
}

absl::Status MemoryTransaction::markBlobLost(const std::string& sha256) {
  if (tables_.blobs.contains(sha256)) tables_.lost_blobs.set(sha256, true);
  tables_.removed_blobs.set(sha256, false);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::beginBlobRemoval(const std::string& sha256) {
  TESSERA_RETURN_IF_ERROR(markBlobLost(sha256));
  if (tables_.blobs.contains(sha256)) tables_.removed_blobs.set(sha256, true);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putSetting(const std::string& name, std::string_view value) {
  tables_.settings.put(name, std::string(value));
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putBlobBytes(const std::string& sha256, std::string_view bytes, int64_t time_s) {
  if (!tables_.blob_bytes.contains(sha256)) tables_.blob_bytes.put(sha256, {std::string(bytes), time_s});
  return absl::OkStatus();
}

absl::Status MemoryTransaction::eraseBlobBytes(const std::string& sha256) {
  tables_.blob_bytes.erase(sha256);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::putToken(const StoredToken& token) {
  TESSERA_RETURN_IF_ERROR(needId(token.token.id(), "AccessToken.id"));
  // A linear search: there are few tokens, and they are written rarely.
  for (const auto& [id, other] : tables_.tokens.rows()) {
    if (id != token.token.id() && other->sha256 == token.sha256) {
      return absl::AlreadyExistsError(absl::StrCat("token ", id, " has this secret"));
    }
  }
  tables_.tokens.put(token.token.id(), token);
  return absl::OkStatus();
}

}  // namespace tessera::storage
