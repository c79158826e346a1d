#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/messages/blob_place.h"
#include "storage/blob_store.h"
#include "storage/file_system.h"

namespace tessera::storage {

/// Where blobs lie, and the steps that make a new one durable. Thread-safe.
class BlobFolder {
 public:
  static absl::StatusOr<std::unique_ptr<BlobFolder>> open(const std::string& root, const BlobStoreOptions& options);

  std::string blobPath(const std::string& sha256) const;
  std::string partialPath(const std::string& name) const { return root_ + "/" + kUnfinishedBlobs + "/" + name; }

  /// Bytes of the blob; NOT_FOUND when it is absent.
  absl::StatusOr<int64_t> blobSize(const std::string& sha256) const;

  FileSystem& files() const { return files_; }

  /// The blob's bytes as one file to read, however it is stored.
  absl::StatusOr<std::unique_ptr<File>> openBlob(const std::string& sha256) const;

  /// Makes a synced partial file the recipe of a composed blob (composed_file.h), whose other parts are `others`: each
  /// gets one more name, so that its bytes stay whatever becomes of the blob they are. Like publish().
  absl::Status publishComposed(const std::string& partial_name, const std::string& sha256,
                               const std::vector<std::string>& others);

  /// Renames a synced partial file to its blob; durable when OK. After an error the blob is absent, as far as the disk
  /// allows: nobody may take a name for durable that is not.
  absl::Status publish(const std::string& partial_name, const std::string& sha256);

  /// Makes the name of a blob that is there durable, unless this process did so before: its file may come from a
  /// process that ended between the rename and the folder's sync.
  absl::Status confirm(const std::string& sha256);

  /// Removes a blob's file. One that comes back with a power loss is a blob without a row.
  absl::Status remove(const std::string& sha256);

  /// Calls `visit` for every blob there is; ends with the first error it answers.
  absl::Status forEach(const std::function<absl::Status(const std::string& sha256, const FileFacts& facts)>& visit);

  /// Moves a damaged blob away, provided the name still stands for the file that was read:
  /// a sound copy may have been uploaded meanwhile.
  absl::Status setAside(const std::string& sha256, const File& read);

  /// Keeps bytes that were found in a blob's row and are not its own, for the operator to look at.
  absl::Status keepAside(const std::string& sha256, std::string_view bytes);

  /// Blobs of which there is a damaged file and no other.
  absl::StatusOr<std::vector<std::string>> damaged() const;

  /// Whether a partial file is a client's upload, which can be resumed: a digest, or a digest and a project.
  static bool isUpload(const std::string& partial_name);
  /// Whether it is what a worker has placed (kPlacedBlob).
  static bool isPlaced(const std::string& partial_name);
  /// Calls `visit` for every partial file.
  absl::Status forEachPartial(const std::function<void(const std::string& name, const FileFacts& facts)>& visit);
  /// Names of partial files that nobody touched for the lifetime, and of those that cannot be resumed.
  absl::StatusOr<std::vector<std::string>> stalePartials(int64_t lifetime_seconds);

 private:
  BlobFolder(std::string root, FileSystem& files)
      : root_(std::move(root)), files_(files), folder_is_durable_(65536, false), outer_is_durable_(256, false) {}
  std::string folderOf(const std::string& sha256) const;
  std::string asidePath(const std::string& sha256);
  void removeParts(const std::string& sha256);
  /// Removes parts that no recipe asks for: their composition or removal was cut short.
  absl::Status sweepParts();
  absl::Status ensureFolder(const std::string& sha256);
  void noteDurable(const std::string& sha256);

  const std::string root_;
  FileSystem& files_;
  std::mutex mutex_;
  /// Of each two-byte prefix: whether its folder is known to be on disk. Of its first byte: whether the folder around
  /// is.
  std::vector<bool> folder_is_durable_, outer_is_durable_;
  /// Blobs whose names this process made durable, some of them: what is not here is synced once more.
  std::unordered_set<std::string> durable_;
  int set_aside_ = 0;
};

}  // namespace tessera::storage
