#include "server/services/blob_intake.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/queue/uses.h"
#include "server/request_checks.h"
#include "server/services/blob_row.h"
#include "server/services/project_scope.h"
#include "storage/stored_key.h"

namespace tessera::server {

absl::StatusOr<std::set<std::string>> BlobIntake::claimPresent(const Caller& caller,
                                                               const std::vector<std::string>& sha256s) {
  using storage::Kind;
  const bool all = seesAllBlobs(caller);
  // A project keeps a blob by its hold and by the blob's row; the older time of use counts. A worker has no hold.
  const auto useOf = [&](storage::Reader& reader, const std::string& sha256) -> absl::StatusOr<int64_t> {
    TESSERA_ASSIGN_OR_RETURN(int64_t used_us, reader.lastUse(Kind::kBlob, sha256));
    if (!all) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t held_us,
                               reader.lastUse(Kind::kBlobReference, storage::blobReferenceKey(caller.project, sha256)));
      used_us = std::min(used_us, held_us);
    }
    return used_us;
  };
  const int64_t now_us = clock_.nowMicros();
  std::set<std::string> present, stale;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    for (const std::string& sha256 : sha256s) {
      // A file without a row (after a crash between the two) counts as missing: uploading it again ends at once and
      // stores the row.
      TESSERA_ASSIGN_OR_RETURN(const bool there, reader.hasBlob(sha256));
      const auto used_us = useOf(reader, sha256);
      if (!used_us.ok() && !absl::IsNotFound(used_us.status())) {
        return used_us.status();
      }
      if (there && used_us.ok()) {
        (now_us - *used_us > kUseResolutionUs ? stale : present).insert(sha256);
      }
    }
    return absl::OkStatus();
  }));
  if (!stale.empty()) {
    // At most once per blob and kUseResolutionUs. Checked again, since a collection may have deleted one in between.
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction& tx) -> absl::Status {
      for (const std::string& sha256 : stale) {
        TESSERA_RETURN_IF_ERROR(touch(tx, Kind::kBlob, sha256, now_us));
        if (!all) {
          TESSERA_RETURN_IF_ERROR(
              touch(tx, Kind::kBlobReference, storage::blobReferenceKey(caller.project, sha256), now_us));
        }
        TESSERA_ASSIGN_OR_RETURN(const bool there, tx.hasBlob(sha256));
        if (there && useOf(tx, sha256).ok()) {
          present.insert(sha256);
        }
      }
      return absl::OkStatus();
    }));
  }
  return present;
}

absl::Status BlobIntake::checkBytes(const Sent& blob) const {
  TESSERA_RETURN_IF_ERROR(checkDigest(blob.field, blob.digest, limits_.max_blob_bytes));
  if (blob.digest.size_bytes() != static_cast<int64_t>(blob.data.size())) {
    return fieldError(absl::StrCat(blob.field, ".size_bytes"), absl::StrCat(blob.digest.size_bytes()),
                      absl::StrCat(blob.data.size(), ", the bytes that came"));
  }
  if (const std::string found = sha256Hex(blob.data); found != blob.digest.sha256()) {
    return absl::DataLossError(absl::StrCat("the bytes that came are ", found, ", not ", blob.digest.sha256()));
  }
  return absl::OkStatus();
}

absl::Status BlobIntake::storeFile(const std::string& project, const Sent& blob) {
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const bool held, project.empty() ? reader.hasBlob(blob.digest.sha256())
                                                              : reader.mayReadBlob(project, blob.digest.sha256()));
    return held ? absl::OkStatus()
                : checkRoom(quotas_, reader, project, blobs_.unfinishedBytes(project, ""), blob.digest.size_bytes());
  }));
  return blobs_.becomesRow(blob.digest.size_bytes()) ? absl::OkStatus() : blobs_.put(blob.digest, blob.data);
}

absl::Status BlobIntake::storeRows(const std::string& project, const Sent& blob) {
  // Part of the caller's transaction: if it fails, nothing of it remains.
  return store_.transact([&](storage::Transaction& tx) -> absl::Status {
    if (blobs_.becomesRow(blob.digest.size_bytes())) {
      TESSERA_RETURN_IF_ERROR(blobs_.put(blob.digest, blob.data));
    }
    return putBlobRow(tx, blobs_, quotas_, clock_.nowMicros(), project, blob.digest,
                      blobs_.unfinishedBytes(project, ""));  // counts the blobs before it
  });
}

absl::Status BlobIntake::check(const std::vector<Sent>& sent) const {
  for (const Sent& blob : sent) {
    TESSERA_RETURN_IF_ERROR(checkBytes(blob));
  }
  return absl::OkStatus();
}

bool BlobIntake::becomeRows(const std::vector<Sent>& sent) const {
  return std::ranges::all_of(
      sent, [this](const Sent& blob) { return blobs_.becomesRow(static_cast<int64_t>(blob.data.size())); });
}

absl::Status BlobIntake::storeWithin(const std::string& project, const std::vector<Sent>& sent) {
  return store_.transact([&](storage::Transaction& tx) -> absl::Status {
    for (const Sent& blob : sent) {
      TESSERA_ASSIGN_OR_RETURN(const bool held, tx.mayReadBlob(project, blob.digest.sha256()));
      if (!held) {
        TESSERA_RETURN_IF_ERROR(storeRows(project, blob));
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<BlobIntake::Outcome>> BlobIntake::take(const Caller& caller, const std::vector<Sent>& sent) {
  std::string project;
  if (caller.role != v1::WORKER) {
    TESSERA_ASSIGN_OR_RETURN(project, oneProject(caller));
  }
  std::vector<Outcome> outcomes;
  std::vector<std::string> sound;
  for (const Sent& blob : sent) {
    outcomes.push_back({checkBytes(blob), false});
    if (outcomes.back().status.ok()) {
      sound.push_back(blob.digest.sha256());
    }
  }
  // Usually all of them exist: one read.
  TESSERA_ASSIGN_OR_RETURN(const std::set<std::string> present, claimPresent(caller, sound));
  std::vector<size_t> fresh;
  for (size_t i = 0; i < sent.size(); ++i) {
    if (!outcomes[i].status.ok()) {
      continue;
    }
    outcomes[i].existed = present.contains(sent[i].digest.sha256());
    if (!outcomes[i].existed) {
      outcomes[i].status = storeFile(project, sent[i]);
      if (outcomes[i].status.ok()) {
        fresh.push_back(i);
      }
    }
  }
  if (fresh.empty()) {
    return outcomes;
  }
  // The files are durable, so rows may refer to them now.
  TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction&) -> absl::Status {
    for (const size_t i : fresh) {
      outcomes[i].status = storeRows(project, sent[i]);
    }
    return absl::OkStatus();
  }));
  return outcomes;
}

}  // namespace tessera::server
