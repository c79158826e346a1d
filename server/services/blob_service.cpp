#include "server/services/blob_service.h"

#include "absl/strings/str_cat.h"
#include "server/request_checks.h"
#include "server/services/calls.h"
#include "server/services/download_call.h"
#include "server/services/upload_call.h"
#include "server/status_macros.h"

namespace tessera::server {

grpc::ServerUnaryReactor* BlobService::FindMissingBlobs(grpc::CallbackServerContext* context,
                                                        const v1::FindMissingBlobsRequest* request,
                                                        v1::FindMissingBlobsResponse* response) {
  return answer(context, gate_, Right::kFetch, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkRange("digests (count)", request->digests_size(), 0, Limits::kMaxDigests));
    for (int i = 0; i < request->digests_size(); ++i) {
      TESSERA_TRY(checkDigest(absl::StrCat("digests[", i, "]"), request->digests(i), limits_.max_blob_bytes));
    }
    return store_.read([&](storage::Reader& reader) -> absl::Status {
      for (const v1::Digest& digest : request->digests()) {
        // A file without its row (a crash came between the two) counts as missing: uploading it again
        // ends at once and files the row.
        TESSERA_ASSIGN(const bool known, reader.hasBlob(digest.sha256()));
        if (!known || !blobs_.contains(digest.sha256())) {
          *response->add_missing() = digest;
        }
      }
      return absl::OkStatus();
    });
  });
}

grpc::ServerUnaryReactor* BlobService::QueryUpload(grpc::CallbackServerContext* context,
                                                   const v1::QueryUploadRequest* request,
                                                   v1::QueryUploadResponse* response) {
  return answer(context, gate_, Right::kStore, executor_, *request, [this, request, response]() -> absl::Status {
    TESSERA_TRY(checkDigest("digest", request->digest(), limits_.max_blob_bytes));
    TESSERA_ASSIGN(const int64_t committed, blobs_.committedBytes(request->digest()));
    response->set_committed_bytes(committed);
    bool known = false;
    TESSERA_TRY(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN(known, reader.hasBlob(request->digest().sha256()));
      return absl::OkStatus();
    }));
    response->set_complete(known && blobs_.contains(request->digest().sha256()));
    return absl::OkStatus();
  });
}

grpc::ServerReadReactor<v1::UploadBlobRequest>* BlobService::UploadBlob(grpc::CallbackServerContext* context,
                                                                        v1::UploadBlobResponse* response) {
  // A stream holds one chunk at a time.
  auto admission = gate_.admit(*context, Right::kStore, 2 * Limits::kMaxChunkBytes);
  if (!admission.ok()) {
    return new Refusal<grpc::ServerReadReactor<v1::UploadBlobRequest>>(admission.status());
  }
  return UploadCall::start(std::move(admission->ticket), store_, blobs_, executor_, limits_, response);
}

grpc::ServerWriteReactor<v1::DownloadBlobResponse>* BlobService::DownloadBlob(grpc::CallbackServerContext* context,
                                                                              const v1::DownloadBlobRequest* request) {
  auto admission = gate_.admit(*context, Right::kFetch, 2 * Limits::kMaxChunkBytes);
  if (!admission.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::DownloadBlobResponse>>(admission.status());
  }
  return DownloadCall::start(std::move(admission->ticket), blobs_, executor_, *request);
}

}  // namespace tessera::server
