#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "proto/support/sha256.h"
#include "storage/blob_folder.h"
#include "storage/blob_rows.h"
#include "storage/blob_store.h"
#include "storage/space_accounting.h"

/// The ways to create a blob: it exists already, its bytes are sent, it is composed of others, or its file was placed
/// here.
namespace tessera::storage {

/// The set of digests being uploaded. Thread-safe.
class ActiveUploads {
 public:
  bool start(const std::string& sha256) {
    std::lock_guard<std::mutex> lock(mutex_);
    return active_.insert(sha256).second;
  }
  /// Waits until another upload of the digest has ended. Use only for operations that take no longer than a sync.
  void startWhenFree(const std::string& sha256) {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [&] { return active_.insert(sha256).second; });
  }
  void end(const std::string& sha256) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      active_.erase(sha256);
    }
    ended_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::unordered_set<std::string> active_;
};

/// Upload of an existing blob: ignores the data and confirms that the blob is durable.
class ExistingBlobUpload : public BlobStore::Upload {
 public:
  using Confirm = std::function<absl::Status()>;
  explicit ExistingBlobUpload(Confirm confirm) : confirm_(std::move(confirm)) {}
  absl::Status write(std::string_view) override { return absl::OkStatus(); }
  absl::Status commit() override { return confirm_(); }

 private:
  const Confirm confirm_;
};

/// Upload of an existing blob by a client that must prove that it has the bytes: verifies and drops them.
class ProofUpload : public BlobStore::Upload {
 public:
  ProofUpload(v1::Digest digest, ExistingBlobUpload::Confirm confirm)
      : digest_(std::move(digest)), confirm_(std::move(confirm)) {}
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;

 private:
  const v1::Digest digest_;
  const ExistingBlobUpload::Confirm confirm_;
  Sha256 hash_;
  std::string found_;  ///< the hash, once commit() was called
  int64_t sent_ = 0;
};

/// Base of uploads with a partial file.
class PartialUpload : public BlobStore::Upload {
 public:
  struct Place {
    BlobFolder& folder;
    SpaceAccounting& room;
    v1::Digest digest;
    std::string partial_name;
    std::function<void()> release;  ///< called by the destructor, whatever the result
    ActiveUploads& publishing;      ///< digests whose files are being published
    BlobRows* rows = nullptr;       ///< set if the blob becomes a row; null: a file
  };
  ~PartialUpload() override { place_.release(); }

 protected:
  explicit PartialUpload(Place place) : place_(std::move(place)) {}
  std::string partialPath() const { return place_.folder.partialPath(place_.partial_name); }
  void removePartial() { (void)place_.folder.files().remove(partialPath()); }
  /// For a repeated commit() of a file.
  absl::Status confirmPublished();

  const Place place_;
  bool committed_ = false;
};

/// Bytes that are sent in order, possibly over several connections.
class FileUpload : public PartialUpload {
 public:
  /// `new_bytes`: size that the blob adds when it is committed; 0 if it exists.
  FileUpload(Place place, int64_t new_bytes) : PartialUpload(std::move(place)), new_bytes_(new_bytes) {}

  /// Opens the partial file. Keeps its first `offset` bytes, or takes them from the partial file `from`, and hashes
  /// them. They are written again: if an earlier sync of them failed, they are in the page cache but not on the disk,
  /// and a new sync would not write them.
  absl::Status open(int64_t offset, const std::string& from = "");
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;

 private:
  absl::Status discard(const std::string& why);
  void take(std::string_view data);
  void end();
  absl::Status commitAgain();
  absl::Status publishRow();
  absl::Status publishFile();

  const int64_t new_bytes_;
  std::unique_ptr<File> file_;
  Sha256 hash_;
  std::string row_;  ///< content of a blob that becomes a row
  int64_t written_ = 0;
  absl::Status status_;
};

/// Writes a recipe and the parts that are sent; the other parts exist.
class ComposedUpload : public PartialUpload {
 public:
  ComposedUpload(Place place, std::vector<BlobStore::Part> parts, BlobStore::DigestSource hashed)
      : PartialUpload(std::move(place)), parts_(std::move(parts)), hashed_(hashed) {}
  ~ComposedUpload() override;

  absl::Status open();
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;

 private:
  absl::Status verify();

  const std::vector<BlobStore::Part> parts_;
  const BlobStore::DigestSource hashed_;
  std::unique_ptr<File> file_;
  std::vector<std::unique_ptr<File>> others_;
  std::vector<std::string> names_;
  int64_t written_ = 0, sent_ = 0;  // size of the recipe file so far, and bytes received
};

/// Takes over a complete file that a worker placed here.
class PlacedUpload : public PartialUpload {
 public:
  explicit PlacedUpload(Place place) : PartialUpload(std::move(place)) {}
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;
};

}  // namespace tessera::storage
