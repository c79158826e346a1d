#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/access/gate.h"
#include "server/clock.h"
#include "server/executor.h"
#include "server/limits.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/blob_service.grpc.pb.h"

namespace tessera::server {

class BlobService : public v1::BlobService::CallbackService {
 public:
  BlobService(Clock& clock, storage::Store& store, storage::BlobStore& blobs, Gate& gate, Quotas& quotas,
              Executor& executor, const Limits& limits)
      : clock_(clock),
        store_(store),
        blobs_(blobs),
        gate_(gate),
        quotas_(quotas),
        executor_(executor),
        limits_(limits) {}

  grpc::ServerUnaryReactor* FindMissingBlobs(grpc::CallbackServerContext* context,
                                             const v1::FindMissingBlobsRequest* request,
                                             v1::FindMissingBlobsResponse* response) override;
  grpc::ServerUnaryReactor* QueryUpload(grpc::CallbackServerContext* context, const v1::QueryUploadRequest* request,
                                        v1::QueryUploadResponse* response) override;
  grpc::ServerReadReactor<v1::UploadBlobRequest>* UploadBlob(grpc::CallbackServerContext* context,
                                                             v1::UploadBlobResponse* response) override;
  grpc::ServerUnaryReactor* BatchUpdateBlobs(grpc::CallbackServerContext* context,
                                             const v1::BatchUpdateBlobsRequest* request,
                                             v1::BatchUpdateBlobsResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadBlobResponse>* DownloadBlob(grpc::CallbackServerContext* context,
                                                                   const v1::DownloadBlobRequest* request) override;

 private:
  /// Of these, those that are there with row and file and that the caller may read; they will be named soon, so no
  /// collection takes them now.
  absl::StatusOr<std::set<std::string>> claimPresent(const Caller& caller, const std::vector<std::string>& sha256s);

  /// Checks a blob, and stores its file where its bytes do not become a row. Its rows are put later, with those of
  /// others; whether it has one already is the answer.
  absl::StatusOr<bool> storeFile(const std::string& project, const v1::BatchUpdateBlobsRequest::Blob& blob);
  /// The row that says it is there, and that of its bytes.
  absl::Status storeRows(const std::string& project, const v1::BatchUpdateBlobsRequest::Blob& blob);

  Clock& clock_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  Gate& gate_;
  Quotas& quotas_;
  Executor& executor_;
  const Limits& limits_;
};

}  // namespace tessera::server
