#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tessera/v1/blob_service.grpc.pb.h"
#include "workers/blob_cache.h"
#include "workers/cancellation.h"
#include "workers/shared_blobs.h"

namespace tessera::worker {

/// Transfers blobs between files and the server. Calls retry while the server is unreachable, and resume interrupted
/// transfers. They return CANCELLED once `cancellation` is cancelled. Thread-safe.
class BlobClient {
 public:
  /// Uploads go through the server's folder if `shared` permits it; it must outlive the client.
  BlobClient(const std::shared_ptr<grpc::Channel>& channel, SharedBlobs& shared)
      : stub_(v1::BlobService::NewStub(channel)), shared_(shared) {}

  /// Streams a blob into `sink`, without verifying it. NOT_FOUND if the server lacks it.
  absl::Status download(const v1::Digest& digest, const ByteSink& sink, Cancellation& cancellation);

  struct File {
    v1::Digest digest;
    std::string path;  ///< a complete file; unused if there are parts
    struct Part {
      std::string path;
      v1::Digest digest;
      bool is_there = false;  ///< the server has this part and uses its own copy
    };
    std::vector<Part> parts = {};  ///< if not empty, the blob is their concatenation
  };
  /// Uploads the files that the server lacks; they are durable on return.
  absl::Status upload(const std::vector<File>& files, Cancellation& cancellation);

 private:
  absl::Status downloadOnce(const v1::Digest& digest, int64_t& offset, const ByteSink& sink,
                            Cancellation& cancellation);
  absl::StatusOr<std::vector<File>> missing(const std::vector<File>& files, Cancellation& cancellation);
  absl::Status uploadOnce(const File& file, Cancellation& cancellation);
  absl::Status uploadPlaced(const File& file, const std::string& name, Cancellation& cancellation);
  absl::Status uploadParts(const File& file, Cancellation& cancellation);

  std::unique_ptr<v1::BlobService::StubInterface> stub_;
  SharedBlobs& shared_;
};

}  // namespace tessera::worker
