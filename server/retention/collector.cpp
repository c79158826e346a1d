#include "server/retention/collector.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/queue/digest_references.h"
#include "server/queue/jobs.h"
#include "server/queue/uses.h"
#include "server/retention/losses.h"
#include "server/workflows/trial_records.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

using storage::Kind;
using storage::Stored;

constexpr size_t kDeletionBatch = 64;  // deletions per transaction, so that the writer serves others in between
constexpr size_t kBlobBatch = 8;       // each syncs a folder while the writer waits
constexpr int kMaxProblems = 1000;     // reported by a verification
constexpr int kFastestKept = 4;        // records of each workload, chip and number of threads, kept whatever their age
constexpr int64_t kSecondUs = 1'000'000;

/// Time before which objects are deleted; nothing if the policy keeps them forever.
int64_t cutoff(int64_t now_us, int64_t keep_us) {
  return keep_us == 0 ? INT64_MIN : now_us - std::max(keep_us, kMinKeepUs);
}

bool isOver(const Stored& stored) {
  switch (stored.kind) {
    case Kind::kJob:
      return isTerminal(static_cast<const v1::Job*>(stored.message)->state());
    case Kind::kAction:
      return isTerminal(static_cast<const v1::Action*>(stored.message)->state());
    case Kind::kTask: {
      const v1::Task::State state = static_cast<const v1::Task*>(stored.message)->state();
      return state != v1::Task::READY && state != v1::Task::LEASED;
    }
    default:
      return true;
  }
}

/// Owner of an object. Built objects are found by keys that contain the project, so whoever may read the blob keeps it.
std::string projectOf(const Stored& stored) {
  switch (stored.kind) {
    case Kind::kJob:
      return tessera::projectOf(*static_cast<const v1::Job*>(stored.message));
    case Kind::kAction:
      return tessera::projectOf(*static_cast<const v1::Action*>(stored.message));
    case Kind::kTask:
      return tessera::projectOf(*static_cast<const v1::Task*>(stored.message));
    case Kind::kArtifact:
      return tessera::projectOf(*static_cast<const v1::Artifact*>(stored.message));
    case Kind::kRecord:
      return tessera::projectOf(*static_cast<const v1::TuningRecord*>(stored.message));
    default:
      return "";
  }
}

/// Size of an artifact's file, an object or a blob.
int64_t bytesOf(const Stored& stored) {
  return stored.kind == Kind::kArtifact ? static_cast<const v1::Artifact*>(stored.message)->blob().size_bytes()
                                        : static_cast<const v1::Digest*>(stored.message)->size_bytes();
}

}  // namespace

absl::Status Collector::mark(storage::Reader& reader, bool living, Names& names) const {
  const auto note = [&](const Stored& stored) -> absl::Status {
    bool counts = !living || !isOver(stored);
    if (!counts && stored.kind == Kind::kJob) {
      TESSERA_ASSIGN_OR_RETURN(counts, reader.isPinned(Kind::kJob, stored.id));
    }
    if (!counts) {
      return stopping_ ? absl::CancelledError("the server stops") : absl::OkStatus();
    }
    const auto markAll = [&, project = projectOf(stored)](const google::protobuf::Message& message) {
      forEachSha256(message, [&](const std::string& name) {
        names.insert(name);
        if (!living) {
          // A reference of one project does not keep another project's hold.
          names.insert(storage::blobReferenceKey(project, name));
        }
      });
    };
    markAll(*stored.message);
    // Versions and logs of searches are rows of their own.
    if (stored.kind == Kind::kJob && static_cast<const v1::Job*>(stored.message)->has_tune()) {
      TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::ArtifactVersion> versions,
                               reader.versionsAfter(stored.id, 0, INT_MAX));
      std::ranges::for_each(versions, markAll);
    }
    if (stored.kind == Kind::kAction && static_cast<const v1::Action*>(stored.message)->has_search()) {
      TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::SearchEntry> log, reader.searchLog(stored.id));
      std::ranges::for_each(log, markAll);
    }
    return stopping_ ? absl::CancelledError("the server stops") : absl::OkStatus();
  };
  for (const Kind kind : {Kind::kJob, Kind::kAction, Kind::kTask}) {
    TESSERA_RETURN_IF_ERROR(reader.forEach(kind, note));
  }
  if (!living) {
    for (const Kind kind : {Kind::kArtifact, Kind::kObject, Kind::kRecord}) {
      TESSERA_RETURN_IF_ERROR(reader.forEach(kind, note));
    }
  }
  return absl::OkStatus();
}

absl::Status Collector::chooseJobs(storage::Reader& reader, const v1::RetentionPolicy& policy,
                                   std::vector<Victim>& jobs, std::vector<Victim>& events) const {
  const int64_t jobs_before = cutoff(clock_.nowMicros(), policy.jobs_us());
  const int64_t events_before = cutoff(clock_.nowMicros(), policy.events_us());
  return reader.forEach(Kind::kJob, [&](const Stored& stored) -> absl::Status {
    if (!isOver(stored) || (stored.time_us >= jobs_before && stored.time_us >= events_before)) {
      return absl::OkStatus();
    }
    TESSERA_ASSIGN_OR_RETURN(const bool pinned, reader.isPinned(Kind::kJob, stored.id));
    if (pinned) {
      return absl::OkStatus();
    }
    TESSERA_ASSIGN_OR_RETURN(const int64_t count, reader.eventCount(stored.id));
    if (stored.time_us < jobs_before) {
      jobs.push_back({Kind::kJob, stored.id, count});
    } else if (count > 0) {
      events.push_back({Kind::kJob, stored.id, count});
    }
    return absl::OkStatus();
  });
}

/// Objects that were last used too long ago, and then the least recently used beyond `keep_bytes`.
absl::Status Collector::chooseByUse(storage::Reader& reader, Kind kind, int64_t keep_us, int64_t keep_bytes,
                                    const Names& living, std::vector<Victim>& victims) const {
  const int64_t now_us = clock_.nowMicros();
  const int64_t before = cutoff(now_us, keep_us);
  int64_t bytes = 0;
  std::vector<std::pair<int64_t, Victim>> others;  // by time of last use
  TESSERA_RETURN_IF_ERROR(reader.forEach(kind, [&](const Stored& stored) -> absl::Status {
    bytes += bytesOf(stored);
    TESSERA_ASSIGN_OR_RETURN(const bool pinned, reader.isPinned(kind, stored.id));
    bool wanted = pinned || living.contains(stored.id);
    forEachSha256(*stored.message, [&](const std::string& name) { wanted = wanted || living.contains(name); });
    Victim victim{kind, stored.id, bytesOf(stored)};
    if (!wanted && stored.time_us < before) {
      bytes -= victim.bytes;
      victims.push_back(std::move(victim));
    } else if (!wanted && stored.time_us < now_us - kMinKeepUs) {
      others.emplace_back(stored.time_us, std::move(victim));
    }
    return absl::OkStatus();
  }));
  if (keep_bytes > 0) {
    std::sort(others.begin(), others.end(), [](const auto& one, const auto& other) { return one.first < other.first; });
    for (auto& [time_us, victim] : others) {
      if (bytes <= keep_bytes) {
        break;
      }
      bytes -= victim.bytes;
      victims.push_back(std::move(victim));
    }
  }
  return absl::OkStatus();
}

absl::Status Collector::chooseRecords(storage::Reader& reader, int64_t keep_us, std::vector<Victim>& victims) const {
  const int64_t before = cutoff(clock_.nowMicros(), keep_us);
  if (keep_us == 0) {
    return absl::OkStatus();
  }
  // Keep results of tuning: the fastest records of each group, from which searches start; confirmations, which
  // compilations prefer; and the newest measurement of each choice.
  std::set<std::string> fastest;
  storage::BestQuery query;
  query.top = kFastestKept;
  query.page_size = 1000;
  do {
    TESSERA_ASSIGN_OR_RETURN(const storage::Page<storage::BestGroup> page, reader.bestRecords(query));
    for (const storage::BestGroup& group : page.items) {
      for (const v1::TuningRecord& record : group.records) {
        fastest.insert(record.id());
      }
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
  return reader.forEach(Kind::kRecord, [&](const Stored& stored) {
    const auto& record = static_cast<const v1::TuningRecord&>(*stored.message);
    if (stored.time_us < before && !fastest.contains(stored.id) && record.mode() != kConfirmedMode &&
        record.mode() != kChoiceMode) {
      victims.push_back({Kind::kRecord, stored.id});
    }
    return absl::OkStatus();
  });
}

absl::Status Collector::eraseAll(const std::vector<Victim>& victims, int64_t used_before_us) {
  for (size_t first = 0; first < victims.size(); first += kDeletionBatch) {
    if (stopping_) {
      return absl::CancelledError("the server stops");
    }
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
      for (size_t i = first; i < std::min(victims.size(), first + kDeletionBatch); ++i) {
        const Victim& victim = victims[i];
        TESSERA_ASSIGN_OR_RETURN(const bool pinned, tx.isPinned(victim.kind, victim.id));
        bool wanted = pinned;
        if (victim.kind == Kind::kArtifact || victim.kind == Kind::kObject || victim.kind == Kind::kBlobReference) {
          const auto used = tx.lastUse(victim.kind, victim.id);
          // Checked again in this transaction: used since the snapshot.
          wanted = wanted || (used.ok() && *used >= used_before_us);
        }
        if (!wanted) {
          TESSERA_RETURN_IF_ERROR(tx.erase(victim.kind, victim.id));
        }
      }
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CollectGarbageResponse> Collector::collect(const v1::RetentionPolicy& policy, bool dry_run) {
  // Two collections would count and delete the same objects; a backup copies files that must stay.
  const std::unique_lock only_one(collecting_, std::try_to_lock);
  if (!only_one.owns_lock()) {
    return absl::AbortedError("a collection, a verification or a backup is going on; try again when it has ended");
  }
  std::shared_ptr<void> only_server;
  if (exclusion_) {
    TESSERA_ASSIGN_OR_RETURN(only_server, exclusion_());
  }
  const int64_t used_before_us = clock_.nowMicros() - kMinKeepUs;
  std::vector<Victim> jobs, events, artifacts, objects, records;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    Names living;
    TESSERA_RETURN_IF_ERROR(mark(reader, true, living));
    TESSERA_RETURN_IF_ERROR(chooseJobs(reader, policy, jobs, events));
    TESSERA_RETURN_IF_ERROR(
        chooseByUse(reader, Kind::kArtifact, policy.artifacts_us(), policy.artifact_bytes(), living, artifacts));
    TESSERA_RETURN_IF_ERROR(
        chooseByUse(reader, Kind::kObject, policy.objects_us(), policy.object_bytes(), living, objects));
    return chooseRecords(reader, policy.records_us(), records);
  }));
  v1::CollectGarbageResponse response;
  response.set_jobs(static_cast<int64_t>(jobs.size()));
  response.set_artifacts(static_cast<int64_t>(artifacts.size()));
  response.set_objects(static_cast<int64_t>(objects.size()));
  response.set_records(static_cast<int64_t>(records.size()));
  for (const std::vector<Victim>& those : {jobs, events}) {
    for (const Victim& victim : those) {
      response.set_events(response.events() + victim.bytes);
    }
  }
  if (!dry_run) {
    for (const std::vector<Victim>& those : {jobs, artifacts, objects, records}) {
      TESSERA_RETURN_IF_ERROR(eraseAll(those, used_before_us));
    }
    for (size_t first = 0; first < events.size(); first += kDeletionBatch) {
      TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
        for (size_t i = first; i < std::min(events.size(), first + kDeletionBatch); ++i) {
          TESSERA_RETURN_IF_ERROR(tx.eraseEvents(events[i].id));
        }
        return absl::OkStatus();
      }));
    }
  }
  TESSERA_RETURN_IF_ERROR(sweepBlobs(policy, dry_run, response));
  return response;
}

absl::Status Collector::sweepBlobs(const v1::RetentionPolicy& policy, bool dry_run,
                                   v1::CollectGarbageResponse& response) {
  if (policy.blobs_us() == 0) {
    return absl::OkStatus();
  }
  const int64_t used_before_us = cutoff(clock_.nowMicros(), policy.blobs_us());
  std::vector<Victim> victims, holds;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    Names named;
    TESSERA_RETURN_IF_ERROR(mark(reader, false, named));
    // The project no longer needs the blob, so it no longer counts against its quota, even if another one keeps it.
    TESSERA_RETURN_IF_ERROR(reader.forEach(Kind::kBlobReference, [&](const Stored& stored) {
      const std::string& sha256 = static_cast<const v1::Digest*>(stored.message)->sha256();
      // Objects without a project (rows of earlier releases) keep the holds of all projects.
      if (!named.contains(stored.id) && !named.contains(storage::blobReferenceKey("", sha256)) &&
          stored.time_us < used_before_us) {
        holds.push_back({Kind::kBlobReference, stored.id});
      }
      return absl::OkStatus();
    }));
    TESSERA_RETURN_IF_ERROR(reader.forEach(Kind::kBlob, [&](const Stored& stored) {
      if (!named.contains(stored.id) && stored.time_us < used_before_us) {
        victims.push_back({Kind::kBlob, stored.id, bytesOf(stored)});
      } else {
        response.set_kept_blobs(response.kept_blobs() + 1);
        response.set_kept_bytes(response.kept_bytes() + bytesOf(stored));
      }
      return absl::OkStatus();
    }));
    // Files without a row, left by a crash between the two.
    const int64_t age_s = std::max(policy.blobs_us(), kMinKeepUs) / kSecondUs;
    return blobs_.forEach([&](const std::string& sha256, int64_t bytes, int64_t file_age_s) -> absl::Status {
      absl::Status row = reader.lastUse(Kind::kBlob, sha256).status();
      if (!row.ok() && !absl::IsNotFound(row)) {
        return row;
      }
      if (!row.ok() && !named.contains(sha256) && file_age_s > age_s) {
        victims.push_back({Kind::kBlob, sha256, bytes});
      }
      return stopping_ ? absl::CancelledError("the server stops") : absl::OkStatus();
    });
  }));
  if (dry_run) {
    for (const Victim& victim : victims) {
      response.set_blobs(response.blobs() + 1);
      response.set_blob_bytes(response.blob_bytes() + victim.bytes);
    }
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(eraseAll(holds, used_before_us));
  TESSERA_RETURN_IF_ERROR(eraseBlobs(victims, used_before_us, response));
  TESSERA_ASSIGN_OR_RETURN(const int partials, blobs_.removeStalePartials());
  response.set_partials(partials);
  return absl::OkStatus();
}

absl::Status Collector::eraseBlobs(const std::vector<Victim>& victims, int64_t used_before_us,
                                   v1::CollectGarbageResponse& response) {
  for (size_t first = 0; first < victims.size(); first += kBlobBatch) {
    if (stopping_) {
      return absl::CancelledError("the server stops");
    }
    std::vector<std::pair<Victim, int64_t>> lost;  // with the time of use at which each was marked
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
      lost.clear();
      for (size_t i = first; i < std::min(victims.size(), first + kBlobBatch); ++i) {
        const auto used = tx.lastUse(Kind::kBlob, victims[i].id);
        if (!used.ok() && !absl::IsNotFound(used.status())) {
          return used.status();
        }
        if (used.ok() && *used >= used_before_us) {
          continue;  // used since the snapshot
        }
        if (!used.ok()) {
          // A file without a row gets one, so that a server that is about to rely on it can touch that row.
          v1::Digest digest;
          digest.set_sha256(victims[i].id);
          digest.set_size_bytes(victims[i].bytes);
          TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, ""));
        }
        TESSERA_RETURN_IF_ERROR(tx.markBlobLost(victims[i].id));
        TESSERA_ASSIGN_OR_RETURN(const int64_t marked_us, tx.lastUse(Kind::kBlob, victims[i].id));
        lost.emplace_back(victims[i], marked_us);
      }
      return absl::OkStatus();
    }));
    int64_t count = 0, bytes = 0;
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
      count = bytes = 0;
      for (const auto& [victim, marked_us] : lost) {
        TESSERA_ASSIGN_OR_RETURN(const bool sent_again, tx.hasBlob(victim.id));
        const auto used = tx.lastUse(Kind::kBlob, victim.id);
        if (!used.ok() && !absl::IsNotFound(used.status())) {
          return used.status();
        }
        if (sent_again || !used.ok() || *used != marked_us) {
          continue;  // needed again, or deleted, since the mark
        }
        // The row first: on a store with several writers this waits for a server that touches it, or makes that server
        // wait, before the bytes are gone.
        const absl::Status removed = store_.transact([&, id = victim.id](storage::Transaction& nested) -> absl::Status {
          TESSERA_RETURN_IF_ERROR(nested.erase(Kind::kBlob, id));
          return blobs_.remove(id);
        });
        if (absl::IsAborted(removed)) {
          continue;  // being uploaded again
        }
        TESSERA_RETURN_IF_ERROR(removed);
        ++count;
        bytes += victim.bytes;
      }
      return absl::OkStatus();
    }));
    response.set_blobs(response.blobs() + count);
    response.set_blob_bytes(response.blob_bytes() + bytes);
  }
  return absl::OkStatus();
}

namespace {

/// Pinned objects are not deleted: whoever deletes one must remove its pin first.
absl::Status refusePinned(storage::Reader& reader, Kind kind, const std::string& key, const char* what,
                          const std::string& id) {
  TESSERA_ASSIGN_OR_RETURN(const bool pinned, reader.isPinned(kind, key));
  return pinned ? absl::FailedPreconditionError(
                      absl::StrCat(what, " ", id, " is pinned; `tessera admin unpin --", what, " ", id, "` first"))
                : absl::OkStatus();
}

}  // namespace

absl::Status Collector::erase(const v1::DeleteRequest& request, const std::string& project) {
  return store_.transact([&](storage::Transaction& tx) -> absl::Status {
    const auto needed = [](const std::string& why) { return absl::FailedPreconditionError(why); };
    switch (request.what_case()) {
      case v1::DeleteRequest::kJobId: {
        TESSERA_ASSIGN_OR_RETURN(const v1::Job job, tx.getJob(request.job_id()));
        if (!isTerminal(job.state())) {
          return needed(absl::StrCat("job ", job.id(), " is ", v1::Job::State_Name(job.state()), "; cancel it first"));
        }
        TESSERA_RETURN_IF_ERROR(refusePinned(tx, Kind::kJob, job.id(), "job", job.id()));
        return tx.erase(Kind::kJob, job.id());
      }
      case v1::DeleteRequest::kArtifactId: {
        TESSERA_RETURN_IF_ERROR(tx.getArtifact(project, request.artifact_id()).status());
        const std::string key = storage::storedKey(project, request.artifact_id());
        TESSERA_RETURN_IF_ERROR(refusePinned(tx, Kind::kArtifact, key, "artifact", request.artifact_id()));
        Names living;
        TESSERA_RETURN_IF_ERROR(mark(tx, true, living));
        if (living.contains(request.artifact_id())) {
          return needed(absl::StrCat("a living job needs artifact ", request.artifact_id()));
        }
        return tx.erase(Kind::kArtifact, key);
      }
      case v1::DeleteRequest::kRecordId:
        return tx.erase(Kind::kRecord, request.record_id());
      case v1::DeleteRequest::kTargetName:
        if (compiler::findBuiltinTarget(request.target_name()) != nullptr) {
          return needed(absl::StrCat("target ", request.target_name(), " is part of this release"));
        }
        TESSERA_RETURN_IF_ERROR(tx.getTarget(project, request.target_name()).status());
        return tx.erase(Kind::kTarget, storage::storedKey(project, request.target_name()));
      case v1::DeleteRequest::kWorkerId: {
        TESSERA_ASSIGN_OR_RETURN(const v1::Worker worker, tx.getWorker(request.worker_id()));
        if (worker.state() != v1::Worker::LOST || worker.task_ids_size() > 0) {
          return needed(absl::StrCat("worker ", worker.id(), " is ", v1::Worker::State_Name(worker.state())));
        }
        return tx.erase(Kind::kWorker, worker.id());
      }
      default:
        return absl::InvalidArgumentError("nothing is named to be deleted");
    }
  });
}

absl::StatusOr<v1::VerifyStorageResponse> Collector::verify(bool read_blobs) {
  const std::unique_lock only_one(collecting_, std::try_to_lock);
  if (!only_one.owns_lock()) {
    return absl::AbortedError("a collection, a verification or a backup is going on; try again when it has ended");
  }
  v1::VerifyStorageResponse response;
  const auto problem = [&](const std::string& text) {
    if (response.problems_size() < kMaxProblems) {
      response.add_problems(text);
    }
  };
  std::vector<v1::Digest> rows;
  std::vector<std::string> gone;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    for (const Kind kind : {Kind::kJob, Kind::kAction, Kind::kTask, Kind::kRecord}) {
      TESSERA_RETURN_IF_ERROR(
          reader.forEach(kind, [](const Stored&) { return absl::OkStatus(); }));  // checks that each can be read
    }
    Names named;
    TESSERA_RETURN_IF_ERROR(mark(reader, false, named));
    const auto needs = [&](const Stored& stored) -> absl::Status {
      const v1::Digest& digest = stored.kind == Kind::kArtifact
                                     ? static_cast<const v1::Artifact*>(stored.message)->blob()
                                     : *static_cast<const v1::Digest*>(stored.message);
      const auto size = blobs_.size(digest.sha256());
      const char* what = stored.kind == Kind::kArtifact ? "artifact "
                         : stored.kind == Kind::kObject ? "object "
                                                        : "blob ";
      if (!size.ok() && !absl::IsNotFound(size.status())) {
        return size.status();  // a read error does not mean a missing file
      }
      if (!size.ok()) {
        gone.push_back(digest.sha256());
        // An interrupted collection leaves such a row; nothing refers to it.
        if (stored.kind == Kind::kBlob && !named.contains(stored.id)) {
          return absl::OkStatus();
        }
        problem(absl::StrCat(what, stored.id, ": its file ", digest.sha256(), " is not there"));
      } else if (*size != digest.size_bytes()) {
        problem(absl::StrCat(what, stored.id, ": its file has ", *size, " bytes, not ", digest.size_bytes()));
      } else if (stored.kind == Kind::kBlob) {
        rows.push_back(digest);
      }
      return absl::OkStatus();
    };
    for (const Kind kind : {Kind::kArtifact, Kind::kObject, Kind::kBlob}) {
      TESSERA_RETURN_IF_ERROR(reader.forEach(kind, needs));
    }
    return absl::OkStatus();
  }));
  for (const std::string& sha256 : gone) {
    TESSERA_RETURN_IF_ERROR(noteLoss(store_, blobs_, sha256).status());
  }
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> damaged, blobs_.damaged());
  for (const std::string& sha256 : damaged) {
    problem(absl::StrCat("blob ", sha256, " was damaged on disk and set aside; upload it again"));
  }
  for (const v1::Digest& digest : rows) {
    if (stopping_) {
      return absl::CancelledError("the server stops");
    }
    if (read_blobs) {
      const absl::Status whole = blobs_.verify(digest.sha256(), [](std::string_view) { return absl::OkStatus(); });
      if (!whole.ok() && !absl::IsNotFound(whole)) {
        problem(std::string(whole.message()));
      }
      if (absl::IsNotFound(whole) || absl::IsDataLoss(whole)) {
        TESSERA_RETURN_IF_ERROR(noteLoss(store_, blobs_, digest.sha256()).status());
      }
    }
    response.set_blobs(response.blobs() + 1);
    response.set_bytes(response.bytes() + digest.size_bytes());
  }
  return response;
}

}  // namespace tessera::server
