#include "storage/blob_uploads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/composed_file.h"
#include "storage/file_system.h"

namespace tessera::storage {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

/// Hashes a whole file.
absl::StatusOr<std::string> hashOf(const File& file) {
  Sha256 hash;
  std::string chunk(kChunkBytes, '\0');
  for (int64_t offset = 0;;) {
    TESSERA_ASSIGN_OR_RETURN(size_t got, file.readAt(offset, chunk.data(), chunk.size()));
    if (got == 0) return hash.finish();
    hash.update({chunk.data(), got});
    offset += static_cast<int64_t>(got);
  }
}

}  // namespace

absl::Status ProofUpload::write(std::string_view data) {
  hash_.update(data);
  sent_ += static_cast<int64_t>(data.size());
  return absl::OkStatus();
}

absl::Status ProofUpload::commit() {
  if (found_.empty()) found_ = hash_.finish();
  if (sent_ != digest_.size_bytes() || found_ != digest_.sha256()) {
    return absl::DataLossError(absl::StrCat("upload of ", digest_.sha256(), ": the ", sent_,
                                            " bytes sent are not those of this digest; send the blob again from 0"));
  }
  return confirm_();
}

absl::Status FileUpload::open(int64_t offset, const std::string& from) {
  TESSERA_ASSIGN_OR_RETURN(auto file, place_.folder.files().open(partialPath(), FileSystem::Access::kReadWriteCreate));
  file_ = std::move(file);
  std::unique_ptr<File> other;
  if (!from.empty() && offset > 0) {
    TESSERA_ASSIGN_OR_RETURN(other,
                             place_.folder.files().open(place_.folder.partialPath(from), FileSystem::Access::kRead));
  } else
    TESSERA_RETURN_IF_ERROR(file_->truncate(offset));
  const File& kept = other ? *other : *file_;
  std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, offset)), '\0');
  while (written_ < offset) {
    const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(offset - written_));
    TESSERA_ASSIGN_OR_RETURN(size_t got, kept.readAt(written_, chunk.data(), wanted));
    if (got == 0) return absl::DataLossError(absl::StrCat("the partial file of ", place_.digest.sha256(), " shrank"));
    TESSERA_RETURN_IF_ERROR(file_->writeAt(written_, {chunk.data(), got}));
    take({chunk.data(), got});
  }
  return absl::OkStatus();
}

void FileUpload::take(std::string_view data) {
  hash_.update(data);
  if (place_.rows != nullptr) row_.append(data);
  written_ += static_cast<int64_t>(data.size());
}

absl::Status FileUpload::write(std::string_view data) {
  if (!status_.ok()) return status_;
  if (static_cast<int64_t>(data.size()) > place_.digest.size_bytes() - written_) {
    return discard(absl::StrCat("more than the announced ", place_.digest.size_bytes(), " bytes were sent"));
  }
  status_ = file_->writeAt(written_, data);
  if (status_.ok()) take(data);
  return status_;
}

absl::Status FileUpload::commit() {
  if (committed_) return commitAgain();
  if (!status_.ok()) return status_;
  if (written_ != place_.digest.size_bytes()) {
    return discard(absl::StrCat(written_, " bytes were sent, ", place_.digest.size_bytes(), " announced"));
  }
  const std::string found = hash_.finish();
  if (found != place_.digest.sha256()) return discard(absl::StrCat("the bytes sent have SHA-256 ", found));
  if (place_.rows != nullptr) return publishRow();
  status_ = file_->sync();
  if (status_.ok()) status_ = publishFile();
  if (!status_.ok()) {
    // Pages that could not be written are dropped: they read back well until they are evicted, and a second sync
    // succeeds without them. Only bytes that are sent again can be trusted.
    removePartial();
    return status_;
  }
  end();
  return absl::OkStatus();
}

void FileUpload::end() {
  committed_ = true;
  status_ = absl::FailedPreconditionError("this upload is committed");
}

/// Of several uploads of the same bytes, the first one creates the blob, and only it is counted.
absl::Status FileUpload::publishFile() {
  const std::string& sha256 = place_.digest.sha256();
  // Serialize publishing per digest: otherwise two uploads could both see the blob as absent and count it twice.
  place_.publishing.startWhenFree(sha256);
  const bool present = new_bytes_ > 0 && place_.folder.blobSize(sha256).ok();
  absl::Status status = present ? place_.folder.confirm(sha256) : place_.folder.publish(place_.partial_name, sha256);
  if (status.ok() && present) {
    removePartial();
    place_.room.leave(place_.partial_name, 0);
  } else if (status.ok()) {
    place_.room.publish(place_.partial_name, new_bytes_);
  }
  place_.publishing.end(sha256);
  return status;
}

/// Creates the row from the bytes received. The partial file is never synced; it only serves to resume an interrupted
/// upload.
absl::Status FileUpload::publishRow() {
  const absl::Status stored = place_.rows->put(place_.digest.sha256(), row_);
  removePartial();
  place_.room.leave(place_.partial_name, 0);
  end();
  return stored;
}

/// The transaction around commit() was undone or refused, and runs again: the row may be gone, a file is there.
absl::Status FileUpload::commitAgain() {
  const std::string& sha256 = place_.digest.sha256();
  return place_.rows != nullptr ? place_.rows->put(sha256, row_) : confirmPublished();
}

absl::Status PartialUpload::confirmPublished() { return place_.folder.confirm(place_.digest.sha256()); }

absl::Status FileUpload::discard(const std::string& why) {
  removePartial();
  status_ = absl::DataLossError(
      absl::StrCat("upload of ", place_.digest.sha256(), ": ", why, "; it is discarded, send the blob again from 0"));
  return status_;
}

ComposedUpload::~ComposedUpload() {
  if (file_) removePartial();
}

absl::Status ComposedUpload::open() {
  TESSERA_ASSIGN_OR_RETURN(file_, place_.folder.files().open(partialPath(), FileSystem::Access::kReadWriteCreate));
  std::vector<RecipePart> recipe;
  for (const BlobStore::Part& part : parts_) {
    recipe.push_back({part.sha256.empty(), part.bytes});
    if (part.sha256.empty()) {
      sent_ += part.bytes;
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(auto other, place_.folder.openBlob(part.sha256));
    others_.push_back(std::move(other));
    names_.push_back(part.sha256);
  }
  const std::string header = recipeHeader(recipe);
  written_ = static_cast<int64_t>(header.size());
  sent_ += written_;
  return file_->writeAt(0, header);
}

absl::Status ComposedUpload::write(std::string_view data) {
  if (static_cast<int64_t>(data.size()) > sent_ - written_) {
    return absl::DataLossError(
        absl::StrCat("upload of ", place_.digest.sha256(), ": more bytes than its parts have were sent"));
  }
  absl::Status status = file_->writeAt(written_, data);
  if (status.ok()) written_ += static_cast<int64_t>(data.size());
  return status;
}

absl::Status ComposedUpload::verify() {
  const std::string& sha256 = place_.digest.sha256();
  TESSERA_ASSIGN_OR_RETURN(auto recipe, place_.folder.files().open(partialPath(), FileSystem::Access::kRead));
  TESSERA_ASSIGN_OR_RETURN(auto whole, openComposed(std::move(recipe), std::move(others_)));
  TESSERA_ASSIGN_OR_RETURN(std::string found, hashOf(*whole));
  if (found != sha256) {
    return absl::DataLossError(absl::StrCat("upload of ", sha256, ": its parts have SHA-256 ", found));
  }
  return absl::OkStatus();
}

absl::Status ComposedUpload::commit() {
  const std::string& sha256 = place_.digest.sha256();
  if (committed_) return confirmPublished();
  if (written_ != sent_) {
    return absl::DataLossError(absl::StrCat("upload of ", sha256, ": ", sent_ - written_, " bytes are missing"));
  }
  absl::Status status = hashed_ == BlobStore::DigestSource::kTrusted ? absl::OkStatus() : verify();
  if (status.ok()) status = file_->sync();
  if (status.ok()) status = place_.folder.publishComposed(place_.partial_name, sha256, names_);
  if (status.ok()) place_.room.publish(place_.partial_name, place_.digest.size_bytes());
  committed_ = status.ok();
  return status;
}

absl::Status PlacedUpload::write(std::string_view data) {
  return data.empty() ? absl::OkStatus() : absl::InvalidArgumentError("a placed file takes no data");
}

absl::Status PlacedUpload::commit() {
  if (committed_) return confirmPublished();
  auto file = place_.folder.files().open(partialPath(), FileSystem::Access::kRead);
  absl::Status status = file.ok() ? (*file)->sync() : file.status();
  if (status.ok()) status = place_.folder.publish(place_.partial_name, place_.digest.sha256());
  if (status.ok()) place_.room.publish(place_.partial_name, place_.digest.size_bytes());
  committed_ = status.ok();
  return status;
}

}  // namespace tessera::storage
