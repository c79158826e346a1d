#include "storage/transfer_blobs.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/blob_path.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/blob_store.h"
#include "storage/cached_blob_store_impl.h"
#include "storage/composed_file.h"
#include "storage/file_system.h"

namespace tessera::storage {
namespace {

/// The bytes of a blob in a folder that a service may be using: a file, or a recipe of a composed blob.
absl::StatusOr<std::unique_ptr<File>> openBlob(const std::string& folder, const std::string& sha256) {
  auto file = systemFiles().open(absl::StrCat(folder, "/", blobRelativePath(sha256)), FileSystem::Access::kRead);
  return absl::IsNotFound(file.status()) ? openComposed(systemFiles(), folder, sha256) : std::move(file);
}

void warnMissing(const v1::Digest& blob, const absl::Status& why) {
  spdlog::warn("blob {} is not copied and counts as lost: {}", blob.sha256(), std::string(why.message()));
}

}  // namespace

absl::Status BlobTransfer::forEach(const std::string& phase,
                                   const std::function<absl::Status(const v1::Digest& blob)>& visit) {
  int64_t done = 0;
  for (const v1::Digest& blob : blobs_) {
    TESSERA_RETURN_IF_ERROR(visit(blob));
    progress_(phase, ++done, static_cast<int64_t>(blobs_.size()));
  }
  return absl::OkStatus();
}

void BlobTransfer::countCopy(const v1::Digest& blob) {
  ++stats_.blobs_copied;
  stats_.bytes_copied += blob.size_bytes();
}

absl::StatusOr<std::set<std::string>> BlobTransfer::store() {
  std::unordered_set<std::string> present;  // name and size
  TESSERA_RETURN_IF_ERROR(objects_.list(kObjectPrefix, "", [&](const ObjectInfo& object) {
    present.insert(absl::StrCat(object.name, " ", object.bytes));
    return true;
  }));
  std::set<std::string> missing;
  TESSERA_RETURN_IF_ERROR(forEach("blobs", [&](const v1::Digest& blob) -> absl::Status {
    const std::string name = objectOf(blob.sha256());
    if (present.contains(absl::StrCat(name, " ", blob.size_bytes()))) return absl::OkStatus();
    const auto file = openBlob(folder_, blob.sha256());
    const absl::Status stored = file.ok() ? objects_.put(name, **file, blob) : file.status();
    if (absl::IsNotFound(stored) || absl::IsDataLoss(stored)) {
      warnMissing(blob, stored);
      missing.insert(blob.sha256());
      return absl::OkStatus();
    }
    TESSERA_RETURN_IF_ERROR(stored);
    countCopy(blob);
    return absl::OkStatus();
  }));
  return missing;
}

absl::StatusOr<std::set<std::string>> BlobTransfer::fetch() {
  TESSERA_ASSIGN_OR_RETURN(const auto files, openBlobStore(folder_));
  std::set<std::string> missing;
  TESSERA_RETURN_IF_ERROR(forEach("blobs", [&](const v1::Digest& blob) -> absl::Status {
    if (files->contains(blob.sha256())) return absl::OkStatus();
    TESSERA_ASSIGN_OR_RETURN(const auto upload, files->startUpload(blob, 0));
    absl::Status copied =
        objects_.get(objectOf(blob.sha256()), 0, 0, [&](std::string_view chunk) { return upload->write(chunk); });
    if (copied.ok()) copied = upload->commit();
    if (absl::IsNotFound(copied) || absl::IsDataLoss(copied)) {
      warnMissing(blob, copied);
      missing.insert(blob.sha256());
      return absl::OkStatus();
    }
    TESSERA_RETURN_IF_ERROR(copied);
    countCopy(blob);
    return absl::OkStatus();
  }));
  return missing;
}

absl::Status BlobTransfer::verifyObjects(const std::set<std::string>& missing) {
  return forEach("verified blobs", [&](const v1::Digest& blob) -> absl::Status {
    if (missing.contains(blob.sha256())) return absl::OkStatus();
    Sha256 hash;
    const std::string name = objectOf(blob.sha256());
    absl::Status read = objects_.get(name, 0, 0, [&](std::string_view chunk) {
      hash.update(chunk);
      return absl::OkStatus();
    });
    if (read.ok() && hash.finish() == blob.sha256()) return absl::OkStatus();
    if (!read.ok() && !absl::IsNotFound(read)) return read;
    TESSERA_RETURN_IF_ERROR(objects_.remove(name));
    return absl::DataLossError(absl::StrCat("object ", objects_.placeOf(name),
                                            read.ok() ? " has wrong bytes" : " is gone", "; run the command again"));
  });
}

absl::Status BlobTransfer::verifyFolder(const std::set<std::string>& missing) {
  TESSERA_ASSIGN_OR_RETURN(const auto files, openBlobStore(folder_));
  return forEach("verified blobs", [&](const v1::Digest& blob) -> absl::Status {
    if (missing.contains(blob.sha256())) return absl::OkStatus();
    const absl::Status whole =
        files->get(blob.sha256(), 0, 0, [](std::string_view) { return absl::OkStatus(); });  // moves a wrong one aside
    return whole.ok() ? whole : absl::DataLossError(absl::StrCat(whole.message(), "; run the command again"));
  });
}

}  // namespace tessera::storage
