#include "server/services/blob_service.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/failure.h"
#include "proto/sha256.h"
#include "server/request_checks.h"
#include "server/scheduler/uses.h"
#include "server/services/blob_row.h"
#include "server/services/calls.h"
#include "server/services/download_call.h"
#include "server/services/own.h"
#include "server/services/upload_call.h"
#include "server/status_macros.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

absl::Status tellOutcomes(const std::vector<absl::Status>& outcomes, v1::BatchUpdateBlobsResponse& response) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) {
      v1::BatchUpdateBlobsResponse::Answer* one = response.mutable_answers(static_cast<int>(i));
      *one->mutable_status() = rpcStatusOf(outcomes[i]);
      one->set_existed(false);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::set<std::string>> BlobService::claimPresent(const Caller& caller,
                                                                const std::vector<std::string>& sha256s) {
  using storage::Kind;
  const bool all = seesAllBlobs(caller);
  // A project keeps a blob by its own reference and by the blob's: what was used longer ago counts. A worker has none.
  const auto useOf = [&](storage::Reader& reader, const std::string& sha256) -> absl::StatusOr<int64_t> {
    TESSERA_ASSIGN(int64_t used_us, reader.lastUse(Kind::kBlob, sha256));
    if (!all) {
      TESSERA_ASSIGN(const int64_t held_us, reader.lastUse(Kind::kHold, storage::holdKey(caller.project, sha256)));
      used_us = std::min(used_us, held_us);
    }
    return used_us;
  };
  const int64_t now_us = clock_.nowMicros();
  std::set<std::string> present, stale;
  TESSERA_TRY(store_.read([&](storage::Reader& reader) -> absl::Status {
    for (const std::string& sha256 : sha256s) {
      // A file without its row (a crash came between the two) counts as missing: uploading it again
      // ends at once and files the row.
      TESSERA_ASSIGN(const bool there, reader.hasBlob(sha256));
      const auto used_us = useOf(reader, sha256);
      if (!used_us.ok() && !absl::IsNotFound(used_us.status())) {
        return used_us.status();
      }
      if (there && used_us.ok()) {
        (now_us - *used_us > kUseGrainUs ? stale : present).insert(sha256);
      }
    }
    return absl::OkStatus();
  }));
  if (!stale.empty()) {
    // Seldom: of each blob once in a grain. Asked again, since one may have been collected in between.
    TESSERA_TRY(store_.transact([&](storage::Transaction& tx) -> absl::Status {
      for (const std::string& sha256 : stale) {
        TESSERA_TRY(noteUse(tx, Kind::kBlob, sha256, now_us));
        if (!all) {
          TESSERA_TRY(noteUse(tx, Kind::kHold, storage::holdKey(caller.project, sha256), now_us));
        }
        TESSERA_ASSIGN(const bool there, tx.hasBlob(sha256));
        if (there && useOf(tx, sha256).ok()) {
          present.insert(sha256);
        }
      }
      return absl::OkStatus();
    }));
  }
  return present;
}

grpc::ServerUnaryReactor* BlobService::FindMissingBlobs(grpc::CallbackServerContext* context,
                                                        const v1::FindMissingBlobsRequest* request,
                                                        v1::FindMissingBlobsResponse* response) {
  return answer(
      context, gate_, Right::kFetch, executor_, *request,
      [this, request, response](const Caller& caller) -> absl::Status {
        TESSERA_TRY(checkRange("digests (count)", request->digests_size(), 0, Limits::kMaxDigests));
        for (int i = 0; i < request->digests_size(); ++i) {
          TESSERA_TRY(checkDigest(absl::StrCat("digests[", i, "]"), request->digests(i), limits_.max_blob_bytes));
        }
        std::vector<std::string> asked;
        for (const v1::Digest& digest : request->digests()) {
          asked.push_back(digest.sha256());
        }
        TESSERA_ASSIGN(const std::set<std::string> present, claimPresent(caller, asked));
        for (const v1::Digest& digest : request->digests()) {
          if (!present.contains(digest.sha256())) {
            *response->add_missing() = digest;
          }
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* BlobService::QueryUpload(grpc::CallbackServerContext* context,
                                                   const v1::QueryUploadRequest* request,
                                                   v1::QueryUploadResponse* response) {
  return answer(context, gate_, Right::kStore, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_TRY(checkDigest("digest", request->digest(), limits_.max_blob_bytes));
                  TESSERA_ASSIGN(const std::set<std::string> present,
                                 claimPresent(caller, {request->digest().sha256()}));
                  const bool trusted = caller.role == v1::WORKER;
                  const storage::BlobStore::Sender sender{trusted ? "" : caller.project, !trusted && present.empty()};
                  TESSERA_ASSIGN(const int64_t committed, blobs_.committedBytes(request->digest(), sender));
                  response->set_committed_bytes(committed);
                  response->set_complete(!present.empty());
                  return absl::OkStatus();
                });
}

grpc::ServerReadReactor<v1::UploadBlobRequest>* BlobService::UploadBlob(grpc::CallbackServerContext* context,
                                                                        v1::UploadBlobResponse* response) {
  // A stream holds one chunk at a time.
  auto admission = gate_.admit(*context, Right::kStore,
                               {.method = "UploadBlob", .resource = "", .bytes = 2 * Limits::kMaxChunkBytes});
  if (!admission.ok()) {
    return new Refusal<grpc::ServerReadReactor<v1::UploadBlobRequest>>(admission.status());
  }
  return UploadCall::start(*std::move(admission), clock_, store_, blobs_, quotas_, executor_, limits_, response);
}

absl::StatusOr<bool> BlobService::storeFile(const std::string& project, const v1::BatchUpdateBlobsRequest::Blob& blob) {
  TESSERA_TRY(checkDigest("digest", blob.digest(), limits_.max_blob_bytes));
  if (blob.digest().size_bytes() != static_cast<int64_t>(blob.data().size())) {
    return fieldError("digest.size_bytes", absl::StrCat(blob.digest().size_bytes()),
                      absl::StrCat(blob.data().size(), ", the bytes that came"));
  }
  if (const std::string found = sha256Hex(blob.data()); found != blob.digest().sha256()) {
    return absl::DataLossError(absl::StrCat("the bytes that came are ", found, ", not ", blob.digest().sha256()));
  }
  bool existed = false;
  TESSERA_TRY(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN(existed, reader.hasBlob(blob.digest().sha256()));
    TESSERA_ASSIGN(const bool held, project.empty() ? existed : reader.holdsBlob(project, blob.digest().sha256()));
    existed = existed && held;
    return held ? absl::OkStatus()
                : checkRoom(quotas_, reader, project, blobs_.unfinishedBytes(project, ""), blob.digest().size_bytes());
  }));
  if (!blobs_.becomesRow(blob.digest().size_bytes())) {
    TESSERA_TRY(blobs_.put(blob.digest(), blob.data()));
  }
  return existed;
}

absl::Status BlobService::storeRows(const std::string& project, const v1::BatchUpdateBlobsRequest::Blob& blob) {
  // Part of the caller's transaction, of which one that fails leaves nothing.
  return store_.transact([&](storage::Transaction& tx) -> absl::Status {
    if (blobs_.becomesRow(blob.digest().size_bytes())) {
      TESSERA_TRY(blobs_.put(blob.digest(), blob.data()));
    }
    return putBlobRow(tx, blobs_, quotas_, clock_.nowMicros(), project, blob.digest(),
                      blobs_.unfinishedBytes(project, ""));  // those before it count by now
  });
}

grpc::ServerUnaryReactor* BlobService::BatchUpdateBlobs(grpc::CallbackServerContext* context,
                                                        const v1::BatchUpdateBlobsRequest* request,
                                                        v1::BatchUpdateBlobsResponse* response) {
  return answer(context, gate_, Right::kStore, executor_, *request,
                [this, request, response](const Caller& caller) -> absl::Status {
                  TESSERA_TRY(checkRange("blobs (count)", request->blobs_size(), 0, Limits::kMaxBatchBlobs));
                  int64_t bytes = 0;
                  for (const auto& blob : request->blobs()) {
                    bytes += static_cast<int64_t>(blob.data().size());
                  }
                  TESSERA_TRY(checkRange("blobs (bytes)", bytes, 0, Limits::kMaxBatchBytes));
                  std::string project;
                  if (caller.role != v1::WORKER) {
                    TESSERA_ASSIGN(project, oneProject(caller));
                  }
                  std::vector<absl::Status> outcomes;
                  std::vector<std::string> existing;
                  for (const auto& blob : request->blobs()) {
                    const auto existed = storeFile(project, blob);
                    outcomes.push_back(existed.status());
                    if (existed.ok() && *existed) {
                      existing.push_back(blob.digest().sha256());
                    }
                    v1::BatchUpdateBlobsResponse::Answer* one = response->add_answers();
                    *one->mutable_digest() = blob.digest();
                    one->set_existed(existed.ok() && *existed);
                  }
                  // Of what is there and in use nothing is written.
                  TESSERA_ASSIGN(const std::set<std::string> present, claimPresent(caller, existing));
                  const auto isNew = [&](size_t i) {
                    return outcomes[i].ok() && !present.contains(request->blobs(static_cast<int>(i)).digest().sha256());
                  };
                  bool any = false;
                  for (size_t i = 0; i < outcomes.size(); ++i) {
                    any = any || isNew(i);
                  }
                  if (!any) {
                    return tellOutcomes(outcomes, *response);
                  }
                  // The files are durable; only now may rows speak of them.
                  TESSERA_TRY(store_.transact([&](storage::Transaction&) -> absl::Status {
                    for (size_t i = 0; i < outcomes.size(); ++i) {
                      if (isNew(i)) {
                        outcomes[i] = storeRows(project, request->blobs(static_cast<int>(i)));
                      }
                    }
                    return absl::OkStatus();
                  }));
                  return tellOutcomes(outcomes, *response);
                });
}

grpc::ServerWriteReactor<v1::DownloadBlobResponse>* BlobService::DownloadBlob(grpc::CallbackServerContext* context,
                                                                              const v1::DownloadBlobRequest* request) {
  auto admission =
      gate_.admit(*context, Right::kFetch,
                  {.method = "DownloadBlob", .resource = resourceOf(*request), .bytes = 2 * Limits::kMaxChunkBytes});
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::DownloadBlobResponse>>(admission.status());
  }
  return DownloadCall::start(*std::move(admission), store_, blobs_, executor_, *request);
}

}  // namespace tessera::server
