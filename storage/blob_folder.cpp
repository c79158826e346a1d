#include "storage/blob_folder.h"

#include <ctime>
#include <set>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/composed_file.h"

namespace tessera::storage {
namespace {

/// Number of blob names remembered as durable. Beyond it all are forgotten, which costs a sync per name that is needed
/// again.
constexpr size_t kMaxRemembered = 65'536;

bool isHexByte(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobFolder>> BlobFolder::open(const std::string& root, const BlobStoreOptions& options) {
  FileSystem& files = options.files ? *options.files : systemFiles();
  std::unique_ptr<BlobFolder> folder(new BlobFolder(root, files));
  for (const std::string& path : {root, root + "/" + kPartialBlobsFolder, root + "/parts", root + "/corrupt"}) {
    TESSERA_RETURN_IF_ERROR(files.makeFolder(path));
  }
  // Sync the parent as well, since this call may have created the root.
  for (const std::string& path : {root, parentOf(root)}) {
    TESSERA_RETURN_IF_ERROR(files.syncFolder(path));
  }
  TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> stale, folder->stalePartials(options.partial_lifetime_seconds));
  for (const std::string& name : stale) (void)files.remove(folder->partialPath(name));
  // The worker that placed a file has ended with the service or will place it again.
  absl::Status swept = folder->forEachPartial([&](const std::string& name, const FileInfo&) {
    if (isPlaced(name)) (void)files.remove(folder->partialPath(name));
  });
  if (swept.ok()) swept = folder->sweepParts();
  if (!swept.ok()) return swept;
  return folder;
}

bool BlobFolder::isUpload(const std::string& partial_name) {
  const size_t dot = partial_name.find('.');
  return isSha256(partial_name.substr(0, dot)) &&
         (dot == std::string::npos || isProjectName(partial_name.substr(dot + 1)));
}

bool BlobFolder::isPlaced(const std::string& partial_name) {
  const size_t dot = partial_name.find('.');
  const size_t number = dot + std::string_view(kPlacedBlobInfix).size();
  return dot != std::string::npos && isSha256(partial_name.substr(0, dot)) &&
         partial_name.compare(dot, number - dot, kPlacedBlobInfix) == 0 && partial_name.size() > number &&
         partial_name.find_first_not_of("0123456789-", number) == std::string::npos;
}

absl::Status BlobFolder::forEachPartial(
    const std::function<void(const std::string& name, const FileInfo& facts)>& visit) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> names, files_.list(partialPath("")));
  for (const std::string& name : names) {
    if (absl::StatusOr<FileInfo> facts = files_.look(partialPath(name)); facts.ok()) visit(name, *facts);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> BlobFolder::stalePartials(int64_t lifetime_seconds) {
  std::vector<std::string> stale;
  absl::Status status = forEachPartial([&](const std::string& name, const FileInfo& facts) {
    if ((!isUpload(name) && !isPlaced(name)) || time(nullptr) - facts.modified_s > lifetime_seconds)
      stale.push_back(name);
  });
  if (!status.ok()) return status;
  return stale;
}

std::string BlobFolder::folderOf(const std::string& sha256) const {
  return absl::StrCat(root_, "/", sha256.substr(0, 2), "/", sha256.substr(2, 2));
}

std::string BlobFolder::blobPath(const std::string& sha256) const {
  return absl::StrCat(root_, "/", blobRelativePath(sha256));
}

absl::StatusOr<std::unique_ptr<File>> BlobFolder::openBlob(const std::string& sha256) const {
  absl::StatusOr<std::unique_ptr<File>> file = files_.open(blobPath(sha256), FileSystem::Access::kRead);
  return absl::IsNotFound(file.status()) ? openComposed(files_, root_, sha256) : std::move(file);
}

absl::StatusOr<int64_t> BlobFolder::blobSize(const std::string& sha256) const {
  // The name may come from a request; only a valid digest may become part of a path.
  if (isSha256(sha256)) {
    absl::StatusOr<FileInfo> facts = files_.look(blobPath(sha256));
    if (facts.ok()) return facts->size;
    if (!absl::IsNotFound(facts.status())) return facts.status();
    absl::StatusOr<std::unique_ptr<File>> composed = openComposed(files_, root_, sha256);
    if (composed.ok()) facts = (*composed)->facts();
    if (composed.ok() && facts.ok()) return facts->size;
    // A damaged blob counts as missing, so that it is uploaded again.
    if (!absl::IsNotFound(composed.status()) && !absl::IsDataLoss(composed.status())) return composed.status();
  }
  return absl::NotFoundError(absl::StrCat("there is no blob \"", sha256, "\"; upload it first"));
}

absl::Status BlobFolder::ensureFolder(const std::string& sha256) {
  uint32_t prefix = 0;
  (void)absl::SimpleHexAtoi(sha256.substr(0, 4), &prefix);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folder_is_durable_[prefix]) return absl::OkStatus();
  // A folder may have been created just before a crash, so sync all folders that are not known to be durable.
  const std::string inner = folderOf(sha256);
  const std::string outer = parentOf(inner);
  const bool outer_is_durable = outer_is_durable_[prefix >> 8];
  absl::Status status = outer_is_durable ? absl::OkStatus() : files_.makeFolder(outer);
  if (status.ok()) status = files_.makeFolder(inner);
  if (status.ok()) status = files_.syncFolder(outer);
  if (status.ok() && !outer_is_durable) status = files_.syncFolder(root_);
  if (status.ok()) outer_is_durable_[prefix >> 8] = folder_is_durable_[prefix] = true;
  return status;
}

void BlobFolder::markDurable(const std::string& sha256) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (durable_.size() >= kMaxRemembered) durable_.clear();
  durable_.insert(sha256);
}

absl::Status BlobFolder::publish(const std::string& partial_name, const std::string& sha256) {
  TESSERA_RETURN_IF_ERROR(ensureFolder(sha256));
  TESSERA_RETURN_IF_ERROR(files_.rename(partialPath(partial_name), blobPath(sha256)));
  absl::Status status = files_.syncFolder(folderOf(sha256));
  if (status.ok()) {
    markDurable(sha256);
    return status;
  }
  // Remove the file, unless an earlier put() of the same bytes made the name durable; then both files are whole.
  std::lock_guard<std::mutex> lock(mutex_);
  if (!durable_.contains(sha256)) (void)files_.remove(blobPath(sha256));
  return status;
}

absl::Status BlobFolder::publishComposed(const std::string& partial_name, const std::string& sha256,
                                         const std::vector<std::string>& others) {
  absl::Status status = ensureFolder(sha256);
  for (size_t i = 0; status.ok() && i < others.size(); ++i) {
    status = files_.link(blobPath(others[i]), partPath(root_, sha256, i));
  }
  // Sync the links first, so that an existing recipe has all its parts.
  if (status.ok()) status = files_.syncFolder(root_ + "/parts");
  if (status.ok()) status = files_.rename(partialPath(partial_name), recipePath(root_, sha256));
  if (status.ok()) status = files_.syncFolder(folderOf(sha256));
  if (status.ok()) {
    markDurable(sha256);
    return status;
  }
  (void)files_.remove(recipePath(root_, sha256));
  removeParts(sha256);
  return status;
}

void BlobFolder::removeParts(const std::string& sha256) {
  for (size_t i = 0; files_.remove(partPath(root_, sha256, i)).ok(); ++i) {
  }
}

absl::Status BlobFolder::sweepParts() {
  TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> names, files_.list(root_ + "/parts"));
  for (const std::string& name : names) {
    const std::string sha256 = name.substr(0, name.find('.'));
    if (!isSha256(sha256) || absl::IsNotFound(files_.look(recipePath(root_, sha256)).status())) {
      (void)files_.remove(absl::StrCat(root_, "/parts/", name));
    }
  }
  return absl::OkStatus();
}

absl::Status BlobFolder::confirm(const std::string& sha256) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (durable_.contains(sha256)) return absl::OkStatus();
  }
  absl::Status status = ensureFolder(sha256);
  if (status.ok()) status = files_.syncFolder(folderOf(sha256));
  if (status.ok()) markDurable(sha256);
  return status;
}

absl::Status BlobFolder::remove(const std::string& sha256) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    durable_.erase(sha256);
  }
  for (const std::string& path : {blobPath(sha256), recipePath(root_, sha256)}) {
    if (absl::Status status = files_.remove(path); !status.ok() && !absl::IsNotFound(status)) return status;
  }
  removeParts(sha256);
  return absl::OkStatus();
}

absl::Status BlobFolder::forEach(
    const std::function<absl::Status(const std::string& sha256, const FileInfo& facts)>& visit) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> outer, files_.list(root_));
  for (const std::string& first : outer) {
    if (!isHexByte(first)) continue;
    TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> inner, files_.list(absl::StrCat(root_, "/", first)));
    for (const std::string& second : inner) {
      if (!isHexByte(second)) continue;
      TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> names,
                               files_.list(absl::StrCat(root_, "/", first, "/", second)));
      for (const std::string& name : names) {
        const std::string sha256 = name.substr(0, name.find('.'));
        const bool composed = name == sha256 + kRecipeSuffix;
        if (!isSha256(sha256) || (name != sha256 && !composed)) continue;
        absl::StatusOr<FileInfo> facts = files_.look(absl::StrCat(root_, "/", first, "/", second, "/", name));
        if (composed && facts.ok()) {
          if (files_.look(blobPath(sha256)).ok()) continue;  // also a plain file, which is visited as such
          const int64_t modified_s = facts->modified_s;
          absl::StatusOr<std::unique_ptr<File>> file = openComposed(files_, root_, sha256);
          if (absl::IsDataLoss(file.status())) continue;
          facts = file.ok() ? (*file)->facts() : file.status();
          if (facts.ok()) facts->modified_s = modified_s;
        }
        if (absl::IsNotFound(facts.status())) continue;  // removed in the meantime
        if (!facts.ok()) return facts.status();
        TESSERA_RETURN_IF_ERROR(visit(sha256, *facts));
      }
    }
  }
  return absl::OkStatus();
}

std::string BlobFolder::quarantinePath(const std::string& sha256) {
  return absl::StrCat(root_, "/corrupt/", sha256, ".", time(nullptr), ".", ++set_aside_);
}

absl::Status BlobFolder::quarantineBytes(const std::string& sha256, std::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto file = files_.open(quarantinePath(sha256), FileSystem::Access::kReadWriteCreate);
  return file.ok() ? (*file)->writeAt(0, bytes) : file.status();
}

absl::Status BlobFolder::quarantine(const std::string& sha256, const File& read) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string path = blobPath(sha256);
  absl::StatusOr<FileInfo> named = files_.look(path);
  const bool composed = absl::IsNotFound(named.status());
  if (composed) named = files_.look(path = recipePath(root_, sha256));
  absl::StatusOr<FileInfo> opened = read.facts();
  // The identity check keeps an intact file that was uploaded under this name since.
  if (!named.ok() || !opened.ok() || named->identity != opened->identity) return absl::OkStatus();
  durable_.erase(sha256);
  TESSERA_RETURN_IF_ERROR(files_.rename(path, quarantinePath(sha256)));
  if (composed) removeParts(sha256);
  return files_.syncFolder(folderOf(sha256));
}

absl::StatusOr<std::vector<std::string>> BlobFolder::damaged() const {
  TESSERA_ASSIGN_OR_RETURN(std::vector<std::string> files, files_.list(root_ + "/corrupt"));
  std::set<std::string> names;
  for (const std::string& file : files) {
    const std::string sha256 = file.substr(0, file.find('.'));
    if (isSha256(sha256) && absl::IsNotFound(blobSize(sha256).status())) names.insert(sha256);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace tessera::storage
