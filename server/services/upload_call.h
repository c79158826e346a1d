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

/// One UploadBlob stream: one chunk in memory, written before the next is read. A stream that breaks off
/// keeps what was written; the client resumes at what QueryUpload says. A project that may not read a blob yet sends
/// all of it, whether or not the service has it from others: to know a digest is not to have what it is of.
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
  std::string project_;   ///< that may read the blob in the end; empty: a worker's, whose report says for whom it is
  int64_t received_ = 0;  ///< of the blob, what lay before the first message included
  bool existed_ = false;  ///< and the caller may read it: no bytes are asked for
  bool finished_ = false;
  std::atomic<Read> read_ = Read::kPending;
  std::atomic<bool> gone_ = false;
  std::unique_ptr<grpc::Alarm> silence_;
  std::atomic<int64_t> reading_ = 0;  ///< number of the read under way; rises when it begins and when it ends
  std::atomic<int64_t> silent_ = 0;   ///< that of one for which the client sent nothing for too long
};

}  // namespace tessera::server
