#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/clock.h"
#include "server/limits.h"
#include "server/services/calls.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/blob_service.pb.h"

namespace tessera::server {

/// One UploadBlob stream. Holds one chunk in memory, and writes it before it reads the next. A broken stream keeps its
/// written bytes; the client resumes at the offset that QueryUpload returns. A project that cannot read the blob yet
/// must send all of its bytes, even if the service has them from another project: knowing a digest does not prove
/// possession of the content.
class UploadCall : public grpc::ServerReadReactor<v1::UploadBlobRequest>, public WakeableCall {
 public:
  static grpc::ServerReadReactor<v1::UploadBlobRequest>* start(Gate::Admission admission, Clock& clock,
                                                               storage::Store& store, storage::BlobStore& blobs,
                                                               Quotas& quotas, Executor& executor, const Limits& limits,
                                                               v1::UploadBlobResponse* response);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { release(); }

 private:
  enum class Read { kPending, kMessage, kEnd };

  UploadCall(Caller caller, Clock& clock, storage::Store& store, storage::BlobStore& blobs, Quotas& quotas,
             Executor& executor, const Limits& limits, v1::UploadBlobResponse* response)
      : WakeableCall(executor),
        caller_(std::move(caller)),
        clock_(clock),
        store_(store),
        blobs_(blobs),
        quotas_(quotas),
        limits_(limits),
        response_(response) {}
  void advance() override;
  void readNext();
  absl::Status checkSizeOfStored(const v1::Digest& digest);
  absl::Status begin();
  absl::Status beginFromFiles();
  absl::Status take();
  absl::Status complete();
  void finish(const absl::Status& status);

  const Caller caller_;
  Clock& clock_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  Quotas& quotas_;
  const Limits& limits_;
  v1::UploadBlobResponse* response_;
  v1::UploadBlobRequest message_;
  v1::Digest digest_;
  std::unique_ptr<storage::BlobStore::Upload> upload_;
  bool begun_ = false;
  std::string project_;      ///< that will hold the blob; empty for a worker, whose report names the project
  int64_t received_ = 0;     ///< bytes of the blob so far, including those of earlier streams
  bool from_files_ = false;  ///< the blob is composed or placed
  bool existed_ = false;     ///< the blob exists and the caller may read it: no bytes are needed
  bool finished_ = false;
  std::atomic<Read> read_ = Read::kPending;
  std::atomic<bool> gone_ = false;
  std::unique_ptr<grpc::Alarm> silence_;
  std::atomic<int64_t> reading_ = 0;  ///< number of the read in progress; increases when a read begins and when it ends
  std::atomic<int64_t> silent_ = 0;   ///< number of a read for which the client sent nothing for too long
};

}  // namespace tessera::server
