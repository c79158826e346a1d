#include "storage/blob_folder.h"

#include <ctime>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/project.h"
#include "proto/sha256.h"

namespace tessera::storage {
namespace {

/// Names remembered as durable; beyond that all are forgotten, which costs a sync each when they are asked for again.
constexpr size_t kMaxRemembered = 65'536;

bool isHexByte(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobFolder>> BlobFolder::open(const std::string& root, const BlobStoreOptions& options) {
  FileSystem& files = options.files ? *options.files : systemFiles();
  std::unique_ptr<BlobFolder> folder(new BlobFolder(root, files));
  for (const std::string& path : {root, root + "/tmp", root + "/corrupt"}) {
    if (absl::Status status = files.makeFolder(path); !status.ok()) return status;
  }
  // The root's own name as well: it may be this call that made it.
  for (const std::string& path : {root, parentOf(root)}) {
    if (absl::Status status = files.syncFolder(path); !status.ok()) return status;
  }
  absl::StatusOr<std::vector<std::string>> stale = folder->stalePartials(options.partial_lifetime_seconds);
  if (!stale.ok()) return stale.status();
  for (const std::string& name : *stale) (void)files.remove(folder->partialPath(name));
  return folder;
}

bool BlobFolder::isUpload(const std::string& partial_name) {
  const size_t dot = partial_name.find('.');
  return isSha256(partial_name.substr(0, dot)) &&
         (dot == std::string::npos || isProjectName(partial_name.substr(dot + 1)));
}

absl::Status BlobFolder::forEachPartial(
    const std::function<void(const std::string& name, const FileFacts& facts)>& visit) {
  absl::StatusOr<std::vector<std::string>> names = files_.list(root_ + "/tmp");
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (absl::StatusOr<FileFacts> facts = files_.look(partialPath(name)); facts.ok()) visit(name, *facts);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> BlobFolder::stalePartials(int64_t lifetime_seconds) {
  std::vector<std::string> stale;
  absl::Status status = forEachPartial([&](const std::string& name, const FileFacts& facts) {
    if (!isUpload(name) || time(nullptr) - facts.modified_s > lifetime_seconds) stale.push_back(name);
  });
  if (!status.ok()) return status;
  return stale;
}

std::string BlobFolder::folderOf(const std::string& sha256) const {
  return absl::StrCat(root_, "/", sha256.substr(0, 2), "/", sha256.substr(2, 2));
}

std::string BlobFolder::blobPath(const std::string& sha256) const {
  return absl::StrCat(folderOf(sha256), "/", sha256);
}

absl::StatusOr<int64_t> BlobFolder::blobSize(const std::string& sha256) const {
  // The name may come from a request; only a digest may become a path.
  if (isSha256(sha256)) {
    absl::StatusOr<FileFacts> facts = files_.look(blobPath(sha256));
    if (facts.ok()) return facts->size;
    if (!absl::IsNotFound(facts.status())) return facts.status();
  }
  return absl::NotFoundError(absl::StrCat("there is no blob \"", sha256, "\"; upload it first"));
}

absl::Status BlobFolder::ensureFolder(const std::string& sha256) {
  uint32_t prefix = 0;
  (void)absl::SimpleHexAtoi(sha256.substr(0, 4), &prefix);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folder_is_durable_[prefix]) return absl::OkStatus();
  // A folder may have been made just before a crash, so what is not known to be durable is synced anew.
  const std::string inner = folderOf(sha256);
  const std::string outer = parentOf(inner);
  absl::Status status = files_.makeFolder(outer);
  if (status.ok()) status = files_.makeFolder(inner);
  if (status.ok()) status = files_.syncFolder(outer);
  if (status.ok()) status = files_.syncFolder(root_);
  folder_is_durable_[prefix] = status.ok();
  return status;
}

void BlobFolder::noteDurable(const std::string& sha256) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (durable_.size() >= kMaxRemembered) durable_.clear();
  durable_.insert(sha256);
}

absl::Status BlobFolder::publish(const std::string& partial_name, const std::string& sha256) {
  if (absl::Status status = ensureFolder(sha256); !status.ok()) return status;
  if (absl::Status status = files_.rename(partialPath(partial_name), blobPath(sha256)); !status.ok()) return status;
  absl::Status status = files_.syncFolder(folderOf(sha256));
  if (status.ok()) {
    noteDurable(sha256);
    return status;
  }
  // Unless a put() of the same bytes made the name durable before: then either file may be behind it, both whole.
  std::lock_guard<std::mutex> lock(mutex_);
  if (!durable_.contains(sha256)) (void)files_.remove(blobPath(sha256));
  return status;
}

absl::Status BlobFolder::confirm(const std::string& sha256) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (durable_.contains(sha256)) return absl::OkStatus();
  }
  absl::Status status = ensureFolder(sha256);
  if (status.ok()) status = files_.syncFolder(folderOf(sha256));
  if (status.ok()) noteDurable(sha256);
  return status;
}

absl::Status BlobFolder::remove(const std::string& sha256) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    durable_.erase(sha256);
  }
  absl::Status status = files_.remove(blobPath(sha256));
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status BlobFolder::forEach(
    const std::function<absl::Status(const std::string& sha256, const FileFacts& facts)>& visit) {
  absl::StatusOr<std::vector<std::string>> outer = files_.list(root_);
  if (!outer.ok()) return outer.status();
  for (const std::string& first : *outer) {
    if (!isHexByte(first)) continue;
    absl::StatusOr<std::vector<std::string>> inner = files_.list(absl::StrCat(root_, "/", first));
    if (!inner.ok()) return inner.status();
    for (const std::string& second : *inner) {
      if (!isHexByte(second)) continue;
      absl::StatusOr<std::vector<std::string>> names = files_.list(absl::StrCat(root_, "/", first, "/", second));
      if (!names.ok()) return names.status();
      for (const std::string& name : *names) {
        if (!isSha256(name)) continue;
        absl::StatusOr<FileFacts> facts = files_.look(blobPath(name));
        if (absl::IsNotFound(facts.status())) continue;  // removed meanwhile
        if (!facts.ok()) return facts.status();
        if (absl::Status status = visit(name, *facts); !status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status BlobFolder::setAside(const std::string& sha256, const File& read) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string path = blobPath(sha256);
  absl::StatusOr<FileFacts> named = files_.look(path);
  absl::StatusOr<FileFacts> opened = read.facts();
  if (!named.ok() || !opened.ok() || named->identity != opened->identity) return absl::OkStatus();
  durable_.erase(sha256);
  const std::string aside = absl::StrCat(root_, "/corrupt/", sha256, ".", time(nullptr), ".", ++set_aside_);
  if (absl::Status status = files_.rename(path, aside); !status.ok()) return status;
  return files_.syncFolder(folderOf(sha256));
}

absl::StatusOr<std::vector<std::string>> BlobFolder::damaged() const {
  absl::StatusOr<std::vector<std::string>> files = files_.list(root_ + "/corrupt");
  if (!files.ok()) return files.status();
  std::set<std::string> names;
  for (const std::string& file : *files) {
    const std::string sha256 = file.substr(0, file.find('.'));
    if (isSha256(sha256) && absl::IsNotFound(blobSize(sha256).status())) names.insert(sha256);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace tessera::storage
