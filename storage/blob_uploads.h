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
#include "storage/room.h"

/// The ways in which bytes become a blob: they are there, they are sent, they are put together of others, or their file
/// was put here whole.
namespace tessera::storage {

/// The digests that are being uploaded.
class ActiveUploads {
 public:
  bool start(const std::string& sha256) {
    std::lock_guard<std::mutex> lock(mutex_);
    return active_.insert(sha256).second;
  }
  /// Waits until it has ended elsewhere: for what takes no longer than a sync.
  void startInTurn(const std::string& sha256) {
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

/// What is left to do for a blob that is there: to be sure that it stays.
class NoUpload : public BlobStore::Upload {
 public:
  using Confirm = std::function<absl::Status()>;
  explicit NoUpload(Confirm confirm) : confirm_(std::move(confirm)) {}
  absl::Status write(std::string_view) override { return absl::OkStatus(); }
  absl::Status commit() override { return confirm_(); }

 private:
  const Confirm confirm_;
};

/// Who sends the bytes of a blob that is there shows to have them; they are kept no second time.
class Proof : public BlobStore::Upload {
 public:
  Proof(v1::Digest digest, NoUpload::Confirm confirm) : digest_(std::move(digest)), confirm_(std::move(confirm)) {}
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;

 private:
  const v1::Digest digest_;
  const NoUpload::Confirm confirm_;
  Sha256 hash_;
  int64_t sent_ = 0;
};

/// What uploads with a partial file have in common.
class PartialUpload : public BlobStore::Upload {
 public:
  struct Place {
    BlobFolder& folder;
    Room& room;
    v1::Digest digest;
    std::string partial_name;
    std::function<void()> release;  ///< called in the end, whatever came of the upload
    ActiveUploads& publishing;      ///< the digests of which a file is being published
    BlobRows* rows = nullptr;       ///< where the blob becomes a row; null: a file
  };
  ~PartialUpload() override { place_.release(); }

 protected:
  explicit PartialUpload(Place place) : place_(std::move(place)) {}
  std::string partialPath() const { return place_.folder.partialPath(place_.partial_name); }
  void removePartial() { (void)place_.folder.files().remove(partialPath()); }

  const Place place_;
};

/// Bytes that are sent, one after another, perhaps over several connections.
class FileUpload : public PartialUpload {
 public:
  /// `new_bytes`: those of the blob when it is committed; 0 of one that is there already.
  FileUpload(Place place, int64_t new_bytes) : PartialUpload(std::move(place)), new_bytes_(new_bytes) {}

  /// Opens the partial file, keeps its first `offset` bytes, or takes them from the partial file called `from`, and
  /// hashes them. They are written again: an earlier sync of them may have failed, after which the page cache has them,
  /// the disk does not, and a new sync would not write them.
  absl::Status open(int64_t offset, const std::string& from = "");
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;

 private:
  absl::Status discard(const std::string& why);
  void take(std::string_view data);
  absl::Status publishRow();
  absl::Status publishFile();

  const int64_t new_bytes_;
  std::unique_ptr<File> file_;
  Sha256 hash_;
  std::string row_;  ///< what was written, of a blob that becomes a row
  int64_t written_ = 0;
  absl::Status status_;
};

/// Writes a recipe and what is sent; the rest is there.
class ComposedUpload : public PartialUpload {
 public:
  ComposedUpload(Place place, std::vector<BlobStore::Part> parts, BlobStore::Hashed hashed)
      : PartialUpload(std::move(place)), parts_(std::move(parts)), hashed_(hashed) {}
  ~ComposedUpload() override;

  absl::Status open();
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;

 private:
  absl::Status verify();

  const std::vector<BlobStore::Part> parts_;
  const BlobStore::Hashed hashed_;
  std::unique_ptr<File> file_;
  std::vector<std::unique_ptr<File>> others_;
  std::vector<std::string> names_;
  int64_t written_ = 0, sent_ = 0;  // of the recipe, its header included
};

/// A file that was put here whole.
class PlacedUpload : public PartialUpload {
 public:
  explicit PlacedUpload(Place place) : PartialUpload(std::move(place)) {}
  absl::Status write(std::string_view data) override;
  absl::Status commit() override;
};

}  // namespace tessera::storage
