#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// The server's blob folder, if it is on the same disk as a worker's scratch folder and both run as one user: blobs are
/// hard-linked instead of copied. If a link fails, this is logged once, and blobs are streamed as for any other worker.
/// Thread-safe.
class SharedBlobs {
 public:
  /// With an empty folder nothing is shared.
  explicit SharedBlobs(std::string folder);

  /// Links a blob of the server to `path`, which must not exist; false if it must be streamed.
  bool take(const std::string& sha256, const std::string& path);

  /// Whether the file `path` is still the server's file of the blob. If the server found the blob damaged, it has
  /// another file or none.
  bool isServersFile(const std::string& sha256, const std::string& path) const;

  /// Links a complete file to the place from which the server takes it over. Returns the name for
  /// UploadBlobRequest.placed; nothing if it must be streamed.
  std::optional<std::string> place(const v1::Digest& digest, const std::string& path);
  /// Removes a file that the server did not take over.
  void forget(const std::string& placed);

 private:
  bool link(const std::string& from, const std::string& to);
  void giveUp(const std::string& why);
  std::string unfinished(const std::string& name) const;

  const std::string folder_;
  std::atomic<bool> usable_;
};

}  // namespace tessera::worker
