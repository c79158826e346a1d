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

/// Moves blobs between files and the server. Calls retry while the server is away, going on where a
/// transfer broke off, and return CANCELLED once `cancellation` is thrown. Thread-safe.
class BlobClient {
 public:
  /// What goes to the server goes through `shared` where it can; it must outlive the client.
  BlobClient(const std::shared_ptr<grpc::Channel>& channel, SharedBlobs& shared)
      : stub_(v1::BlobService::NewStub(channel)), shared_(shared) {}

  /// Streams a blob into `sink`. NOT_FOUND when the server lacks it; bytes are not verified here.
  absl::Status download(const v1::Digest& digest, const ByteSink& sink, Cancellation& cancellation);

  struct File {
    v1::Digest digest;
    std::string path;  ///< of a file that is not written any more; of one with parts it does not exist
    struct Part {
      std::string path;
      v1::Digest digest;
      bool is_there = false;  ///< on the server, which takes it from its own store
    };
    std::vector<Part> parts = {};  ///< when there are any, the blob is these one after another
  };
  /// Uploads those files that the server lacks; durable when OK.
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
