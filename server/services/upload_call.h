#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/limits.h"
#include "server/scheduler/clock.h"
#include "server/services/calls.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/blob_service.pb.h"

namespace tessera::server {

/// One UploadBlob stream: one chunk in memory, written before the next is read. A stream that breaks off
/// keeps what was written; the client resumes at what QueryUpload says.
class UploadCall : public grpc::ServerReadReactor<v1::UploadBlobRequest>, public PokedCall {
 public:
  static grpc::ServerReadReactor<v1::UploadBlobRequest>* start(std::shared_ptr<void> ticket, Clock& clock,
                                                               storage::Store& store, storage::BlobStore& blobs,
                                                               Executor& executor, const Limits& limits,
                                                               v1::UploadBlobResponse* response);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { release(); }

 private:
  enum class Read { kPending, kMessage, kEnd };

  UploadCall(Clock& clock, storage::Store& store, storage::BlobStore& blobs, Executor& executor, const Limits& limits,
             v1::UploadBlobResponse* response)
      : PokedCall(executor), clock_(clock), store_(store), blobs_(blobs), limits_(limits), response_(response) {}
  void advance() override;
  void readNext();
  absl::Status checkSizeOfStored(const v1::Digest& digest);
  absl::Status begin();
  absl::Status take();
  absl::Status complete();
  void finish(const absl::Status& status);

  Clock& clock_;
  storage::Store& store_;
  storage::BlobStore& blobs_;
  const Limits& limits_;
  v1::UploadBlobResponse* response_;
  v1::UploadBlobRequest message_;
  v1::Digest digest_;
  std::unique_ptr<storage::BlobStore::Upload> upload_;
  bool begun_ = false;
  bool existed_ = false;
  bool finished_ = false;
  std::atomic<Read> read_ = Read::kPending;
  std::atomic<bool> gone_ = false;
  std::unique_ptr<grpc::Alarm> silence_;
  std::atomic<int64_t> reading_ = 0;  ///< number of the read under way; rises when it begins and when it ends
  std::atomic<int64_t> silent_ = 0;   ///< that of one for which the client sent nothing for too long
};

}  // namespace tessera::server
