#include "storage/blob_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/blob_file.h"
#include "storage/blob_folder.h"
#include "storage/digest.h"

namespace tessera::storage {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

/// The digests that are being uploaded.
class ActiveUploads {
 public:
  bool start(const std::string& sha256) {
    std::lock_guard<std::mutex> lock(mutex_);
    return active_.insert(sha256).second;
  }
  void end(const std::string& sha256) {
    std::lock_guard<std::mutex> lock(mutex_);
    active_.erase(sha256);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> active_;
};

/// What is left to do for a blob that is there: nothing.
class NoUpload : public BlobStore::Upload {
 public:
  absl::Status write(std::string_view) override { return absl::OkStatus(); }
  absl::Status commit() override { return absl::OkStatus(); }
};

class FileUpload : public BlobStore::Upload {
 public:
  /// `release` is called in the end, whatever came of the upload.
  FileUpload(BlobFolder& folder, v1::Digest digest, std::string partial_name, std::function<void()> release)
      : folder_(folder), digest_(std::move(digest)), name_(std::move(partial_name)), release_(std::move(release)) {}
  ~FileUpload() override {
    if (release_) release_();
  }

  /// Opens the partial file, keeps its first `offset` bytes and hashes them.
  absl::Status open(int64_t offset) {
    absl::StatusOr<File> file = File::open(folder_.partialPath(name_), O_RDWR | O_CREAT);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    if (absl::Status status = file_.truncate(offset); !status.ok()) return status;
    std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, offset)), '\0');
    while (written_ < offset) {
      const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(offset - written_));
      absl::StatusOr<size_t> got = file_.readAt(written_, chunk.data(), wanted);
      if (!got.ok()) return got.status();
      if (*got == 0) return absl::DataLossError(absl::StrCat("the partial file of ", digest_.sha256(), " shrank"));
      hash_.update({chunk.data(), *got});
      written_ += static_cast<int64_t>(*got);
    }
    return absl::OkStatus();
  }

  absl::Status write(std::string_view data) override {
    if (!status_.ok()) return status_;
    if (static_cast<int64_t>(data.size()) > digest_.size_bytes() - written_) {
      return discard(absl::StrCat("more than the announced ", digest_.size_bytes(), " bytes were sent"));
    }
    status_ = file_.writeAt(written_, data);
    if (!status_.ok()) return status_;
    hash_.update(data);
    written_ += static_cast<int64_t>(data.size());
    return status_;
  }

  absl::Status commit() override {
    if (!status_.ok()) return status_;
    if (written_ != digest_.size_bytes()) {
      return discard(absl::StrCat(written_, " bytes were sent, ", digest_.size_bytes(), " announced"));
    }
    const std::string found = hash_.finish();
    if (found != digest_.sha256()) return discard(absl::StrCat("the bytes sent have SHA-256 ", found));
    status_ = file_.sync();
    if (status_.ok()) status_ = folder_.publish(name_, digest_.sha256());
    if (!status_.ok()) return status_;
    status_ = absl::FailedPreconditionError("this upload is committed");
    return absl::OkStatus();
  }

 private:
  absl::Status discard(const std::string& why) {
    unlink(folder_.partialPath(name_).c_str());
    status_ = absl::DataLossError(
        absl::StrCat("upload of ", digest_.sha256(), ": ", why, "; it is discarded, send the blob again from 0"));
    return status_;
  }

  BlobFolder& folder_;
  const v1::Digest digest_;
  const std::string name_;
  const std::function<void()> release_;
  File file_;
  Sha256 hash_;
  int64_t written_ = 0;
  absl::Status status_;
};

class FileBlobStore : public BlobStore {
 public:
  FileBlobStore(std::unique_ptr<BlobFolder> folder, const BlobStoreOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  bool contains(const std::string& sha256) override { return folder_->blobSize(sha256).ok(); }
  absl::StatusOr<int64_t> size(const std::string& sha256) override { return folder_->blobSize(sha256); }

  std::vector<v1::Digest> missing(const std::vector<v1::Digest>& digests) override {
    std::vector<v1::Digest> missing;
    for (const v1::Digest& digest : digests) {
      if (!contains(digest.sha256())) missing.push_back(digest);
    }
    return missing;
  }

  absl::StatusOr<int64_t> committedBytes(const v1::Digest& digest) override {
    if (absl::Status status = check(digest); !status.ok()) return status;
    if (absl::StatusOr<int64_t> size = folder_->blobSize(digest.sha256()); size.ok()) return size;
    absl::StatusOr<File> partial = File::open(folder_->partialPath(digest.sha256()), O_RDONLY);
    if (absl::IsNotFound(partial.status())) return 0;
    return partial.ok() ? partial->size() : partial.status();
  }

  absl::StatusOr<std::unique_ptr<Upload>> startUpload(const v1::Digest& digest, int64_t offset) override {
    if (absl::Status status = check(digest); !status.ok()) return status;
    const std::string& sha256 = digest.sha256();
    if (!uploads_.start(sha256)) {
      if (contains(sha256)) return std::make_unique<NoUpload>();
      return absl::AbortedError(absl::StrCat("another upload of ", sha256, " is going on; retry when it has ended"));
    }
    auto upload = std::make_unique<FileUpload>(*folder_, digest, sha256, [this, sha256] { uploads_.end(sha256); });
    // Asked only now: an upload that ended a moment ago may have made the blob.
    if (contains(sha256)) return std::make_unique<NoUpload>();
    absl::StatusOr<int64_t> committed = committedBytes(digest);
    if (!committed.ok()) return committed.status();
    if (offset != 0 && offset != *committed) {
      return absl::FailedPreconditionError(absl::StrCat("upload of ", sha256, " at offset ", offset,
                                                        "; accepted: ", *committed, " to go on, 0 to start over"));
    }
    if (absl::Status status = upload->open(offset); !status.ok()) return status;
    return upload;
  }

  absl::StatusOr<v1::Digest> put(std::string_view bytes) override {
    v1::Digest digest;
    digest.set_sha256(sha256Hex(bytes));
    digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
    if (absl::Status status = check(digest); !status.ok()) return status;
    if (contains(digest.sha256())) return digest;
    // A partial file of its own: it need not wait for a client's upload of the same bytes.
    const std::string name = absl::StrCat(digest.sha256(), ".", ++puts_);
    FileUpload upload(*folder_, digest, name, nullptr);
    absl::Status status = upload.open(0);
    if (status.ok()) status = upload.write(bytes);
    if (status.ok()) status = upload.commit();
    if (status.ok()) return digest;
    unlink(folder_->partialPath(name).c_str());
    return status;
  }

  absl::Status get(const std::string& sha256, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override;

 private:
  absl::Status check(const v1::Digest& digest) const {
    if (!isSha256(digest.sha256()) || digest.size_bytes() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("digest: found \"", digest.sha256(), "\" of ", digest.size_bytes(),
                                                     " bytes; accepted: 64 lower-case hexadecimal digits, size >= 0"));
    }
    if (digest.size_bytes() > options_.max_blob_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("blob ", digest.sha256(), " has ", digest.size_bytes(),
                                                       " bytes; accepted: at most ", options_.max_blob_bytes));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<BlobFolder> folder_;
  const BlobStoreOptions options_;
  ActiveUploads uploads_;
  std::atomic<int64_t> puts_ = 0;
};

absl::Status FileBlobStore::get(const std::string& sha256, int64_t offset, int64_t limit,
                                const std::function<absl::Status(std::string_view chunk)>& sink) {
  if (absl::StatusOr<int64_t> size = folder_->blobSize(sha256); !size.ok()) return size.status();
  absl::StatusOr<File> file = File::open(folder_->blobPath(sha256), O_RDONLY);
  if (!file.ok()) return file.status();
  absl::StatusOr<int64_t> size = file->size();
  if (!size.ok()) return size.status();
  if (offset < 0 || limit < 0 || offset > *size) {
    return absl::OutOfRangeError(absl::StrCat("blob ", sha256, ": offset ", offset, ", limit ", limit,
                                              "; accepted: an offset of 0 to ", *size, ", a limit of at least 0"));
  }
  const int64_t end = limit == 0 ? *size : offset + std::min(limit, *size - offset);
  const bool whole = offset == 0 && end == *size;
  Sha256 hash;
  std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, end - offset)), '\0');
  while (offset < end || whole) {
    const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(end - offset));
    absl::StatusOr<size_t> got = file->readAt(offset, chunk.data(), wanted);
    if (!got.ok()) return got.status();
    if (whole) hash.update({chunk.data(), *got});
    offset += static_cast<int64_t>(*got);
    const bool last = offset == end || *got < wanted;
    // The last chunk is held back until the hash is known: nobody holds a whole blob that is wrong.
    if (last && whole && hash.finish() != sha256) {
      absl::Status aside = folder_->setAside(sha256, file->descriptor());
      return absl::DataLossError(
          absl::StrCat("blob ", sha256, " is damaged on disk; ",
                       aside.ok() ? "it was set aside, upload it again" : std::string(aside.message())));
    }
    if (*got < wanted) return absl::DataLossError(absl::StrCat("blob ", sha256, " is cut short; upload it again"));
    if (*got > 0) {
      if (absl::Status status = sink({chunk.data(), *got}); !status.ok()) return status;
    }
    if (last) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> openBlobStore(const std::string& folder, const BlobStoreOptions& options) {
  absl::StatusOr<std::unique_ptr<BlobFolder>> opened = BlobFolder::open(folder, options);
  if (!opened.ok()) return opened.status();
  return std::make_unique<FileBlobStore>(*std::move(opened), options);
}

}  // namespace tessera::storage
