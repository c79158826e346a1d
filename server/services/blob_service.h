#pragma once

#include "server/access/gate.h"
#include "server/clock.h"
#include "server/executor.h"
#include "server/limits.h"
#include "server/services/blob_intake.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/blob_service.grpc.pb.h"

namespace tessera::server {

/// Upload and download of content-addressed blobs. Small blobs also travel in batches, whole within one message.
/// Thread-safe.
class BlobService : public v1::BlobService::CallbackService {
 public:
  BlobService(Clock& clock, storage::Store& store, storage::BlobStore& blobs, Gate& gate, Quotas& quotas,
              Executor& executor, const Limits& limits, BlobIntake& intake)
      : clock_(clock),
        store_(store),
        blobs_(blobs),
        gate_(gate),
        quotas_(quotas),
        executor_(executor),
        limits_(limits),
        intake_(intake) {}

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
  Clock& clock_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  Gate& gate_;
  Quotas& quotas_;
  Executor& executor_;
  const Limits& limits_;
  BlobIntake& intake_;
};

}  // namespace tessera::server
