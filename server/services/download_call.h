#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "proto/support/sha256.h"
#include "server/services/calls.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/blob_service.pb.h"

namespace tessera::server {

/// One DownloadBlob stream. Reads a chunk when the previous one is sent, so that a slow client holds one chunk and no
/// thread. A download of a whole blob is hashed, and ends with DATA_LOSS if the digest differs.
class DownloadCall : public grpc::ServerWriteReactor<v1::DownloadBlobResponse>, public WakeableCall {
 public:
  static grpc::ServerWriteReactor<v1::DownloadBlobResponse>* start(Gate::Admission admission, storage::Store& store,
                                                                   storage::BlobStore& blobs, Executor& executor,
                                                                   v1::DownloadBlobRequest request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { release(); }

 private:
  DownloadCall(Caller caller, storage::Store& store, storage::BlobStore& blobs, Executor& executor,
               v1::DownloadBlobRequest request)
      : WakeableCall(executor),
        caller_(std::move(caller)),
        store_(store),
        blobs_(blobs),
        request_(std::move(request)) {}
  void advance() override;
  absl::Status begin();
  absl::Status readChunk();
  absl::Status verify();
  /// Returns the status with which the call ends after a read or check that returned `status`. Records the blob as lost
  /// if its bytes are damaged or its file is missing.
  absl::Status recordLoss(const absl::Status& status);
  void finish(const absl::Status& status);

  const Caller caller_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  const v1::DownloadBlobRequest request_;
  bool begun_ = false;
  bool finished_ = false;
  int64_t next_ = 0;  ///< offset of the next chunk
  int64_t end_ = 0;
  std::optional<Sha256> hash_;  ///< for a download of the whole blob
  v1::DownloadBlobResponse message_;
  std::atomic<bool> writing_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace tessera::server
