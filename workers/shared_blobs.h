#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// The server's folder of blobs, where it lies on the same disk as a worker's scratch folder and both run as one user:
/// a blob gets one more name instead of being copied. Where the system refuses a link, which is said once, blobs are
/// streamed like those of any other worker. Thread-safe.
class SharedBlobs {
 public:
  /// An empty folder: none is shared.
  explicit SharedBlobs(std::string folder);

  /// Gives a blob of the server's the name `path` as well, which must be free; false when it has to be streamed.
  bool take(const std::string& sha256, const std::string& path);

  /// Whether the file `path` still is the server's file of the blob. A server that found bytes lost has another, or
  /// none.
  bool isServers(const std::string& sha256, const std::string& path) const;

  /// Puts a file that nobody writes any more where the server adopts it from. The name for UploadBlobRequest.placed;
  /// nothing when it has to be streamed.
  std::optional<std::string> place(const v1::Digest& digest, const std::string& path);
  /// Removes what the server has not adopted.
  void forget(const std::string& placed);

 private:
  bool link(const std::string& from, const std::string& to);
  void giveUp(const std::string& why);
  std::string unfinished(const std::string& name) const;

  const std::string folder_;
  std::atomic<bool> usable_;
};

}  // namespace tessera::worker
