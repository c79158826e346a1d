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
#include "proto/messages/blob_path.h"
#include "storage/blob_store.h"
#include "storage/file_system.h"

namespace tessera::storage {

/// Folder layout of blob files, and the steps that make a new file durable. Thread-safe.
class BlobFolder {
 public:
  static absl::StatusOr<std::unique_ptr<BlobFolder>> open(const std::string& root, const BlobStoreOptions& options);

  std::string blobPath(const std::string& sha256) const;
  std::string partialPath(const std::string& name) const { return root_ + "/" + kPartialBlobsFolder + "/" + name; }

  /// Size of the blob in bytes; NOT_FOUND if it does not exist.
  absl::StatusOr<int64_t> blobSize(const std::string& sha256) const;

  FileSystem& files() const { return files_; }

  /// Opens the blob as one file for reading, whether it is a plain or a composed file.
  absl::StatusOr<std::unique_ptr<File>> openBlob(const std::string& sha256) const;

  /// Publishes a synced partial file as the recipe of a composed blob (composed_file.h). `others` are its parts that
  /// are blobs; each gets an additional hard link, so that its bytes outlive that blob. Errors as for publish().
  absl::Status publishComposed(const std::string& partial_name, const std::string& sha256,
                               const std::vector<std::string>& others);

  /// Renames a synced partial file to its final name, and makes the name durable. On error the blob is removed as far
  /// as the disk allows, so that no name that is not durable is taken for one that is.
  absl::Status publish(const std::string& partial_name, const std::string& sha256);

  /// Makes the name of an existing blob durable, unless this process already did: the process that renamed it may have
  /// ended before it synced the folder.
  absl::Status confirm(const std::string& sha256);

  /// Removes a blob's file. If a power loss restores it, it is a blob without a row.
  absl::Status remove(const std::string& sha256);

  /// Visits all blobs; stops at the first error.
  absl::Status forEach(const std::function<absl::Status(const std::string& sha256, const FileInfo& facts)>& visit);

  /// Moves a damaged blob aside, if its name still refers to the file that was read. An intact copy may have been
  /// uploaded since.
  absl::Status quarantine(const std::string& sha256, const File& read);

  /// Keeps the bytes of a damaged blob row for an operator.
  absl::Status quarantineBytes(const std::string& sha256, std::string_view bytes);

  /// Blobs with a damaged file and no intact one.
  absl::StatusOr<std::vector<std::string>> damaged() const;

  /// Whether a partial file is a resumable upload: its name is a digest, or a digest and a project.
  static bool isUpload(const std::string& partial_name);
  /// Whether a partial file was placed by a worker (kPlacedBlobInfix).
  static bool isPlaced(const std::string& partial_name);
  /// Visits all partial files.
  absl::Status forEachPartial(const std::function<void(const std::string& name, const FileInfo& facts)>& visit);
  /// Names of partial files that were unused for the lifetime or cannot be resumed.
  absl::StatusOr<std::vector<std::string>> stalePartials(int64_t lifetime_seconds);

 private:
  BlobFolder(std::string root, FileSystem& files)
      : root_(std::move(root)), files_(files), folder_is_durable_(65536, false), outer_is_durable_(256, false) {}
  std::string folderOf(const std::string& sha256) const;
  std::string quarantinePath(const std::string& sha256);
  void removeParts(const std::string& sha256);
  /// Removes part files without a recipe, left by an interrupted composition or removal.
  absl::Status sweepParts();
  absl::Status ensureFolder(const std::string& sha256);
  void markDurable(const std::string& sha256);

  const std::string root_;
  FileSystem& files_;
  std::mutex mutex_;
  /// Whether the folder of each two-byte prefix, and that of its first byte, is known to be durable.
  std::vector<bool> folder_is_durable_, outer_is_durable_;
  /// Some of the blobs whose names this process made durable; names missing here are synced again.
  std::unordered_set<std::string> durable_;
  int set_aside_ = 0;
};

}  // namespace tessera::storage
