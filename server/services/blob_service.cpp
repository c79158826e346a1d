#include "server/services/blob_service.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/queue/uses.h"
#include "server/request_checks.h"
#include "server/services/blob_row.h"
#include "server/services/calls.h"
#include "server/services/download_call.h"
#include "server/services/project_scope.h"
#include "server/services/upload_call.h"
#include "storage/stored_key.h"

namespace tessera::server {
grpc::ServerUnaryReactor* BlobService::FindMissingBlobs(grpc::CallbackServerContext* context,
                                                        const v1::FindMissingBlobsRequest* request,
                                                        v1::FindMissingBlobsResponse* response) {
  return answer(
      context, gate_, Right::kFetch, executor_, *request,
      [this, request, response](const Caller& caller) -> absl::Status {
        TESSERA_RETURN_IF_ERROR(checkRange("digests (count)", request->digests_size(), 0, Limits::kMaxDigests));
        for (int i = 0; i < request->digests_size(); ++i) {
          TESSERA_RETURN_IF_ERROR(
              checkDigest(absl::StrCat("digests[", i, "]"), request->digests(i), limits_.max_blob_bytes));
        }
        std::vector<std::string> asked;
        for (const v1::Digest& digest : request->digests()) {
          asked.push_back(digest.sha256());
        }
        TESSERA_ASSIGN_OR_RETURN(const std::set<std::string> present, intake_.claimPresent(caller, asked));
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
                  TESSERA_RETURN_IF_ERROR(checkDigest("digest", request->digest(), limits_.max_blob_bytes));
                  TESSERA_ASSIGN_OR_RETURN(const std::set<std::string> present,
                                           intake_.claimPresent(caller, {request->digest().sha256()}));
                  const bool trusted = caller.role == v1::WORKER;
                  const storage::BlobStore::Uploader sender{trusted ? "" : caller.project, !trusted && present.empty()};
                  TESSERA_ASSIGN_OR_RETURN(const int64_t committed, blobs_.committedBytes(request->digest(), sender));
                  response->set_committed_bytes(committed);
                  response->set_complete(!present.empty());
                  return absl::OkStatus();
                });
}

grpc::ServerReadReactor<v1::UploadBlobRequest>* BlobService::UploadBlob(grpc::CallbackServerContext* context,
                                                                        v1::UploadBlobResponse* response) {
  // A stream holds one chunk at a time.
  auto admission = gate_.admit(*context, Right::kStore, {.method = "UploadBlob", .bytes = 2 * Limits::kMaxChunkBytes});
  if (!admission.ok()) {
    return new Refusal<grpc::ServerReadReactor<v1::UploadBlobRequest>>(admission.status());
  }
  return UploadCall::start(*std::move(admission), clock_, store_, blobs_, quotas_, executor_, limits_, response);
}

grpc::ServerUnaryReactor* BlobService::BatchUpdateBlobs(grpc::CallbackServerContext* context,
                                                        const v1::BatchUpdateBlobsRequest* request,
                                                        v1::BatchUpdateBlobsResponse* response) {
  return answer(
      context, gate_, Right::kStore, executor_, *request,
      [this, request, response](const Caller& caller) -> absl::Status {
        TESSERA_RETURN_IF_ERROR(checkRange("blobs (count)", request->blobs_size(), 0, Limits::kMaxBatchBlobs));
        int64_t bytes = 0;
        std::vector<BlobIntake::Sent> sent;
        for (const auto& blob : request->blobs()) {
          bytes += static_cast<int64_t>(blob.data().size());
          sent.push_back({"digest", blob.digest(), blob.data()});
        }
        TESSERA_RETURN_IF_ERROR(checkRange("blobs (bytes)", bytes, 0, Limits::kMaxBatchBytes));
        TESSERA_ASSIGN_OR_RETURN(const std::vector<BlobIntake::Outcome> outcomes, intake_.take(caller, sent));
        for (size_t i = 0; i < outcomes.size(); ++i) {
          v1::BatchUpdateBlobsResponse::Answer& one = *response->add_answers();
          *one.mutable_digest() = sent[i].digest;
          one.set_existed(outcomes[i].existed);
          if (!outcomes[i].status.ok()) {
            *one.mutable_status() = toRpcStatus(outcomes[i].status);
          }
        }
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::DownloadBlobResponse>* BlobService::DownloadBlob(grpc::CallbackServerContext* context,
                                                                              const v1::DownloadBlobRequest* request) {
  auto admission = gate_.admit(*context, Right::kFetch,
                               {.method = "DownloadBlob", .bytes = 2 * Limits::kMaxChunkBytes, .request = request});
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::DownloadBlobResponse>>(admission.status());
  }
  return DownloadCall::start(*std::move(admission), store_, blobs_, executor_, *request);
}

}  // namespace tessera::server
