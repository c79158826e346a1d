#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/objects/object_store.h"
#include "storage/transfer.h"

namespace tessera::storage {

/// Copies of the blobs of a data folder to an object store, or back. Blobs that the target has are not copied again.
class BlobTransfer {
 public:
  /// `blobs` are sorted by digest. `folder` is the folder "blobs" of the data folder.
  BlobTransfer(const std::vector<v1::Digest>& blobs, ObjectStore& objects, std::string folder,
               const TransferProgress& progress, TransferStats& stats)
      : blobs_(blobs), objects_(objects), folder_(std::move(folder)), progress_(progress), stats_(stats) {}

  /// From the folder to the object store. Returns the blobs whose files are missing or damaged.
  absl::StatusOr<std::set<std::string>> store();
  /// From the object store to the folder, likewise.
  absl::StatusOr<std::set<std::string>> fetch();
  /// Reads each blob but the missing ones from the target. DATA_LOSS if one does not match its digest; it is removed,
  /// so that the next run copies it again.
  absl::Status verifyObjects(const std::set<std::string>& missing);
  absl::Status verifyFolder(const std::set<std::string>& missing);

 private:
  absl::Status forEach(const std::string& phase, const std::function<absl::Status(const v1::Digest& blob)>& visit);
  void countCopy(const v1::Digest& blob);

  const std::vector<v1::Digest>& blobs_;
  ObjectStore& objects_;
  const std::string folder_;
  const TransferProgress& progress_;
  TransferStats& stats_;
};

}  // namespace tessera::storage
