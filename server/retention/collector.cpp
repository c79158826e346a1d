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
#include "server/workflows/trial_records.h"
#include "storage/snapshots.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

using storage::Kind;
using storage::Stored;

constexpr size_t kDeletionBatch = 64;  // deletions per transaction, so that the writer serves others in between
constexpr size_t kBlobBatch = 8;       // each syncs a folder while the writer waits
constexpr size_t kFileBatch = 500;     // files whose rows are looked up in one snapshot
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

absl::Status Collector::forEach(Kind kind, const Visit& visit) const {
  return storage::forEachInSnapshots(store_, kind, visit, snapshot_items_);
}

absl::Status Collector::mark(bool living, Names& names) const {
  return mark([this](Kind kind, const Visit& visit) { return forEach(kind, visit); }, living, names);
}

absl::Status Collector::mark(const ForEach& for_each, bool living, Names& names) const {
  const auto note = [&](storage::Reader& reader, const Stored& stored) -> absl::Status {
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
    TESSERA_RETURN_IF_ERROR(for_each(kind, note));
  }
  if (!living) {
    for (const Kind kind : {Kind::kArtifact, Kind::kObject, Kind::kRecord}) {
      TESSERA_RETURN_IF_ERROR(for_each(kind, note));
    }
  }
  return absl::OkStatus();
}

absl::Status Collector::chooseJobs(const v1::RetentionPolicy& policy, std::vector<Victim>& jobs,
                                   std::vector<Victim>& events) const {
  const int64_t jobs_before = cutoff(clock_.nowMicros(), policy.jobs_us());
  const int64_t events_before = cutoff(clock_.nowMicros(), policy.events_us());
  return forEach(Kind::kJob, [&](storage::Reader& reader, const Stored& stored) -> absl::Status {
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
absl::Status Collector::chooseByUse(Kind kind, int64_t keep_us, int64_t keep_bytes, const Names& living,
                                    std::vector<Victim>& victims) const {
  const int64_t now_us = clock_.nowMicros();
  const int64_t before = cutoff(now_us, keep_us);
  int64_t bytes = 0;
  std::vector<std::pair<int64_t, Victim>> others;  // by time of last use
  TESSERA_RETURN_IF_ERROR(forEach(kind, [&](storage::Reader& reader, const Stored& stored) -> absl::Status {
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

absl::Status Collector::chooseRecords(int64_t keep_us, std::vector<Victim>& victims) const {
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
    storage::Page<storage::BestGroup> page;
    TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(page, reader.bestRecords(query));
      return absl::OkStatus();
    }));
    for (const storage::BestGroup& group : page.items) {
      for (const v1::TuningRecord& record : group.records) {
        fastest.insert(record.id());
      }
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
  return forEach(Kind::kRecord, [&](storage::Reader&, const Stored& stored) {
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
  Names living;
  TESSERA_RETURN_IF_ERROR(mark(true, living));
  TESSERA_RETURN_IF_ERROR(chooseJobs(policy, jobs, events));
  TESSERA_RETURN_IF_ERROR(
      chooseByUse(Kind::kArtifact, policy.artifacts_us(), policy.artifact_bytes(), living, artifacts));
  TESSERA_RETURN_IF_ERROR(chooseByUse(Kind::kObject, policy.objects_us(), policy.object_bytes(), living, objects));
  TESSERA_RETURN_IF_ERROR(chooseRecords(policy.records_us(), records));
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
  Names named;
  TESSERA_RETURN_IF_ERROR(mark(false, named));
  // The project no longer needs the blob, so it no longer counts against its quota, even if another one keeps it.
  TESSERA_RETURN_IF_ERROR(forEach(Kind::kBlobReference, [&](storage::Reader&, const Stored& stored) {
    const std::string& sha256 = static_cast<const v1::Digest*>(stored.message)->sha256();
    // Objects without a project (rows of earlier releases) keep the holds of all projects.
    if (!named.contains(stored.id) && !named.contains(storage::blobReferenceKey("", sha256)) &&
        stored.time_us < used_before_us) {
      holds.push_back({Kind::kBlobReference, stored.id});
    }
    return absl::OkStatus();
  }));
  TESSERA_RETURN_IF_ERROR(forEach(Kind::kBlob, [&](storage::Reader&, const Stored& stored) {
    if (!named.contains(stored.id) && stored.time_us < used_before_us) {
      victims.push_back({Kind::kBlob, stored.id, bytesOf(stored)});
    } else {
      response.set_kept_blobs(response.kept_blobs() + 1);
      response.set_kept_bytes(response.kept_bytes() + bytesOf(stored));
    }
    return absl::OkStatus();
  }));
  // Files without a row, left by a crash between the two.
  TESSERA_RETURN_IF_ERROR(chooseFiles(std::max(policy.blobs_us(), kMinKeepUs) / kSecondUs, named, victims));
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

/// Adds the files that have no row. Visits them outside of a snapshot: they may be in an object store.
absl::Status Collector::chooseFiles(int64_t age_s, const Names& named, std::vector<Victim>& victims) {
  std::vector<Victim> files;
  const auto addRowless = [&] {
    const absl::Status status = store_.read([&](storage::Reader& reader) -> absl::Status {
      for (const Victim& file : files) {
        const absl::Status row = reader.lastUse(Kind::kBlob, file.id).status();
        if (absl::IsNotFound(row)) {
          victims.push_back(file);
        } else {
          TESSERA_RETURN_IF_ERROR(row);
        }
      }
      return absl::OkStatus();
    });
    files.clear();
    return status;
  };
  TESSERA_RETURN_IF_ERROR(
      blobs_.forEach([&](const std::string& sha256, int64_t bytes, int64_t file_age_s) -> absl::Status {
        if (!named.contains(sha256) && file_age_s > age_s) {
          files.push_back({Kind::kBlob, sha256, bytes});
        }
        if (stopping_) {
          return absl::CancelledError("the server stops");
        }
        return files.size() < kFileBatch ? absl::OkStatus() : addRowless();
      }));
  return addRowless();
}

absl::StatusOr<std::vector<Collector::Lost>> Collector::loseBlobs(std::span<const Victim> victims,
                                                                  int64_t used_before_us, bool remote) {
  std::vector<Lost> lost;
  const int64_t now_us = clock_.nowMicros();
  TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
    lost.clear();
    for (const Victim& victim : victims) {
      const auto used = tx.lastUse(Kind::kBlob, victim.id);
      if (!used.ok() && !absl::IsNotFound(used.status())) {
        return used.status();
      }
      if (used.ok() && *used >= used_before_us) {
        continue;  // used since it was chosen
      }
      if (!used.ok()) {
        // A file without a row gets one, so that a server that is about to rely on it can touch that row.
        v1::Digest digest;
        digest.set_sha256(victim.id);
        digest.set_size_bytes(victim.bytes);
        TESSERA_RETURN_IF_ERROR(tx.putBlob(digest, ""));
      }
      bool is_object = remote;
      if (remote) {
        // The bytes of a row are erased with it. Somebody may store them again before, without waiting.
        const auto bytes = tx.blobBytesSize(victim.id);
        if (!bytes.ok() && !absl::IsNotFound(bytes.status())) {
          return bytes.status();
        }
        is_object = !bytes.ok();
      }
      if (is_object) {
        // The time says how long others wait for this removal, should this server die.
        TESSERA_RETURN_IF_ERROR(tx.touch(Kind::kBlob, victim.id, now_us));
        TESSERA_RETURN_IF_ERROR(tx.beginBlobRemoval(victim.id));
      } else {
        TESSERA_RETURN_IF_ERROR(tx.markBlobLost(victim.id));
      }
      TESSERA_ASSIGN_OR_RETURN(const int64_t marked_us, tx.lastUse(Kind::kBlob, victim.id));
      lost.push_back({victim, marked_us, is_object});
    }
    return absl::OkStatus();
  }));
  return lost;
}

/// Deletes objects of an object store, outside of transactions. Meanwhile nobody stores them again.
absl::Status Collector::removeObjects(std::vector<Lost>& lost) {
  for (Lost& each : lost) {
    if (!each.is_object) {
      continue;
    }
    if (clock_.nowMicros() - each.marked_us > storage::kLongestRemovalUs / 2) {
      break;  // others will not wait much longer
    }
    absl::Status removed = blobs_.removeFile(each.victim.id);
    if (!removed.ok() && !absl::IsAborted(removed)) {
      return removed;
    }
    each.removed = removed.ok();  // otherwise it is being uploaded again
  }
  return absl::OkStatus();
}

absl::Status Collector::eraseBlobs(const std::vector<Victim>& victims, int64_t used_before_us,
                                   v1::CollectGarbageResponse& response) {
  // Files are deleted in the transaction that erases their rows, objects of an object store before it.
  const bool remote = blobs_.remoteStats().has_value();
  for (size_t first = 0; first < victims.size(); first += kBlobBatch) {
    if (stopping_) {
      return absl::CancelledError("the server stops");
    }
    TESSERA_ASSIGN_OR_RETURN(std::vector<Lost> lost,
                             loseBlobs(std::span(victims).subspan(first, std::min(kBlobBatch, victims.size() - first)),
                                       used_before_us, remote));
    const absl::Status removal = removeObjects(lost);
    int64_t count = 0, bytes = 0;
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
      count = bytes = 0;
      for (const auto& [victim, marked_us, is_object, was_removed] : lost) {
        TESSERA_ASSIGN_OR_RETURN(const bool sent_again, tx.hasBlob(victim.id));
        const auto used = tx.lastUse(Kind::kBlob, victim.id);
        if (!used.ok() && !absl::IsNotFound(used.status())) {
          return used.status();
        }
        const bool unused = !sent_again && used.ok() && *used == marked_us;
        if (is_object) {
          TESSERA_ASSIGN_OR_RETURN(const bool removal, tx.isBlobBeingRemoved(victim.id));
          if (!removal) {
            continue;  // its bytes have become a row
          }
          // The mark ends in either case, so that the object may be stored again.
          const bool erased = unused && was_removed;
          TESSERA_RETURN_IF_ERROR(erased ? tx.erase(Kind::kBlob, victim.id) : tx.markBlobLost(victim.id));
          count += erased ? 1 : 0;
          bytes += erased ? victim.bytes : 0;
          continue;
        }
        if (!unused) {
          continue;  // needed again, or deleted, since the mark
        }
        // The row first: on a store with several writers this waits for a server that touches it, or makes that server
        // wait, before the bytes are gone.
        const absl::Status removed = store_.transact([&, id = victim.id](storage::Transaction& nested) -> absl::Status {
          TESSERA_RETURN_IF_ERROR(nested.erase(Kind::kBlob, id));
          return remote ? nested.eraseBlobBytes(id) : blobs_.remove(id);
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
    TESSERA_RETURN_IF_ERROR(removal);
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
        TESSERA_RETURN_IF_ERROR(mark(
            [&tx](Kind kind, const Visit& visit) {
              return tx.forEach(kind, [&](const Stored& stored) { return visit(tx, stored); });
            },
            true, living));
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

}  // namespace tessera::server
