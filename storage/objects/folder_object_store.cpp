#include "storage/objects/folder_object_store.h"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <random>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr char kMark[] = "tessera-objects";
constexpr char kProbe[] = "probe";

/// A number that no other process has, on any machine.
std::string randomName() {
  std::random_device device;
  std::string name;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::Hex(device(), absl::kZeroPad8));
  return name;
}

/// Folder and file name of an object: the last part of its name, below two folders named by its first four characters.
struct Place {
  std::string folder, leaf;
};

class FolderObjectStore : public ObjectStore {
 public:
  FolderObjectStore(std::string root, FileSystem& files) : root_(std::move(root)), files_(files) {}

  absl::Status open(bool known) {
    const absl::Status present = files_.look(root_).status();
    if (absl::IsNotFound(present)) {
      return absl::FailedPreconditionError(
          absl::StrCat("there is no folder ", root_, "; create it, or mount the file system that holds it"));
    }
    TESSERA_RETURN_IF_ERROR(present);
    if (known && absl::IsNotFound(files_.look(root_ + "/" + kMark).status())) {
      return absl::FailedPreconditionError(
          absl::StrCat(root_, " has no ", kMark, ", so it is not the folder of objects; mount its file system"));
    }
    TESSERA_RETURN_IF_ERROR(files_.makeFolder(tmp()));
    TESSERA_RETURN_IF_ERROR(files_.open(root_ + "/" + kMark, FileSystem::Access::kReadWriteCreate).status());
    return files_.syncFolder(root_);
  }

  absl::Status put(const std::string& name, const File& file, const v1::Digest& digest) override {
    ++requests_.puts;
    return counted(putFile(name, file, digest));
  }

  absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override {
    ++requests_.gets;
    const Place place = placeFor(name);
    auto opened = files_.open(place.folder + "/" + place.leaf, FileSystem::Access::kRead);
    if (absl::IsNotFound(opened.status())) return absent(name);
    if (!opened.ok()) return counted(opened.status());
    TESSERA_ASSIGN_OR_RETURN(const FileInfo facts, (*opened)->facts());
    if (offset < 0 || limit < 0 || offset > facts.size) {
      return absl::OutOfRangeError(
          absl::StrCat(placeOf(name), " has ", facts.size, " bytes; offset ", offset, ", limit ", limit));
    }
    const int64_t end = limit == 0 ? facts.size : offset + std::min(limit, facts.size - offset);
    std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, end - offset)), '\0');
    while (offset < end) {
      const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(end - offset));
      TESSERA_ASSIGN_OR_RETURN(const size_t got, (*opened)->readAt(offset, chunk.data(), wanted));
      if (got == 0) return absl::UnavailableError(absl::StrCat(placeOf(name), " became shorter while it was read"));
      requests_.bytes_received += static_cast<int64_t>(got);
      offset += static_cast<int64_t>(got);
      TESSERA_RETURN_IF_ERROR(sink({chunk.data(), got}));
    }
    return absl::OkStatus();
  }

  absl::Status remove(const std::string& name) override {
    ++requests_.deletes;
    const Place place = placeFor(name);
    const absl::Status removed = files_.remove(place.folder + "/" + place.leaf);
    if (!absl::IsNotFound(removed)) return counted(removed);
    const absl::Status why = absent(name);
    return absl::IsNotFound(why) ? absl::OkStatus() : why;
  }

  absl::Status list(const std::string& prefix, const std::string& after,
                    const std::function<bool(const ObjectInfo& object)>& visit) override {
    ++requests_.lists;
    const size_t slash = prefix.rfind('/');
    const std::string kind = prefix.substr(0, slash == std::string::npos ? 0 : slash);
    const std::string top = root_ + "/" + kind;
    TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> outer, sorted(top));
    for (const std::string& first : outer) {
      if (cannotHold(kind + "/" + first, prefix, after)) continue;
      TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> inner, sorted(top + "/" + first));
      for (const std::string& second : inner) {
        if (cannotHold(kind + "/" + first + second, prefix, after)) continue;
        const std::string folder = absl::StrCat(top, "/", first, "/", second);
        TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> leaves, sorted(folder));
        for (const std::string& leaf : leaves) {
          const std::string name = kind + "/" + leaf;
          if (!absl::StartsWith(name, prefix) || name <= after) continue;
          const absl::StatusOr<FileInfo> facts = files_.look(folder + "/" + leaf);
          if (absl::IsNotFound(facts.status())) continue;  // removed in the meantime
          TESSERA_RETURN_IF_ERROR(facts.status());
          if (!visit({name, facts->size, std::max<int64_t>(0, time(nullptr) - facts->modified_s)})) {
            return absl::OkStatus();
          }
        }
      }
    }
    return marked();
  }

  absl::StatusOr<int> removeIncomplete(int64_t age_s) override {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.list(tmp()));
    int removed = 0;
    for (const std::string& name : names) {
      const std::string path = tmp() + "/" + name;
      const absl::StatusOr<FileInfo> facts = files_.look(path);
      if (facts.ok() && time(nullptr) - facts->modified_s >= age_s) removed += files_.remove(path).ok();
    }
    return removed;
  }

  absl::Status checkWritable() override {
    TESSERA_RETURN_IF_ERROR(marked());
    const std::string path = partialPath(kProbe);
    TESSERA_ASSIGN_OR_RETURN(const auto file, files_.open(path, FileSystem::Access::kReadWriteCreate));
    const absl::Status written = file->writeAt(0, kProbe);
    const absl::Status removed = files_.remove(path);
    return written.ok() ? removed : written;
  }

  std::string placeOf(const std::string& name) const override {
    if (name.empty()) return root_;
    const Place place = placeFor(name);
    return place.folder + "/" + place.leaf;
  }
  const ObjectRequests& requests() const override { return requests_; }

 private:
  std::string tmp() const { return root_ + "/tmp"; }
  std::string partialPath(const std::string& leaf) {
    return absl::StrCat(tmp(), "/", leaf, ".", process_, ".", ++written_);
  }

  Place placeFor(const std::string& name) const {
    const size_t slash = name.rfind('/');
    const std::string kind = slash == std::string::npos ? "" : name.substr(0, slash);
    const std::string leaf = slash == std::string::npos ? name : name.substr(slash + 1);
    const std::string key = leaf + "____";  // short names are padded
    return {absl::StrCat(root_, "/", kind, "/", key.substr(0, 2), "/", key.substr(2, 2)), leaf};
  }

  /// Whether no object below a folder, whose objects' names all begin with `start`, is wanted.
  static bool cannotHold(const std::string& start, const std::string& prefix, const std::string& after) {
    const std::string_view wanted = std::string_view(prefix).substr(0, start.size());
    return !start.starts_with(wanted) || start < after.substr(0, start.size());
  }

  /// Names in a folder; none if it does not exist.
  absl::StatusOr<std::vector<std::string>> sorted(const std::string& folder) {
    absl::StatusOr<std::vector<std::string>> names = files_.list(folder);
    if (absl::IsNotFound(names.status())) return std::vector<std::string>();
    if (names.ok()) std::sort(names->begin(), names->end());
    return names;
  }

  absl::Status putFile(const std::string& name, const File& file, const v1::Digest& digest) {
    const Place place = placeFor(name);
    const std::string partial = partialPath(place.leaf);
    absl::Status status = marked();
    if (status.ok()) status = copy(file, digest, partial);
    if (status.ok()) status = makeFolders(place.folder);
    if (status.ok()) status = files_.rename(partial, place.folder + "/" + place.leaf);
    if (status.ok()) status = files_.syncFolder(place.folder);
    if (!status.ok()) (void)files_.remove(partial);
    return status;
  }

  absl::Status copy(const File& file, const v1::Digest& digest, const std::string& to) {
    TESSERA_ASSIGN_OR_RETURN(const auto out, files_.open(to, FileSystem::Access::kReadWriteCreate));
    Sha256 hash;
    std::string chunk(static_cast<size_t>(std::min<int64_t>(kChunkBytes, digest.size_bytes())), '\0');
    int64_t done = 0;
    while (done < digest.size_bytes()) {
      const size_t wanted = std::min<size_t>(chunk.size(), static_cast<size_t>(digest.size_bytes() - done));
      TESSERA_ASSIGN_OR_RETURN(const size_t got, file.readAt(done, chunk.data(), wanted));
      if (got == 0) break;
      hash.update({chunk.data(), got});
      TESSERA_RETURN_IF_ERROR(out->writeAt(done, {chunk.data(), got}));
      done += static_cast<int64_t>(got);
      requests_.bytes_sent += static_cast<int64_t>(got);
    }
    if (done != digest.size_bytes() || hash.finish() != digest.sha256()) {
      return absl::DataLossError(absl::StrCat("the local file of blob ", digest.sha256(), " is damaged"));
    }
    return out->sync();
  }

  /// Creates the folders of an object and syncs their parents, unless this process already did: another process may
  /// have created them without having synced them yet.
  absl::Status makeFolders(const std::string& folder) {
    {
      const std::lock_guard lock(mutex_);
      if (durable_.contains(folder)) return absl::OkStatus();
    }
    const std::string outer = parentOf(folder), kind = parentOf(outer);
    for (const std::string& each : {kind, outer, folder}) {
      TESSERA_RETURN_IF_ERROR(files_.makeFolder(each));
      TESSERA_RETURN_IF_ERROR(files_.syncFolder(parentOf(each)));
    }
    const std::lock_guard lock(mutex_);
    durable_.insert(folder);
    return absl::OkStatus();
  }

  /// FAILED_PRECONDITION if the file system is not mounted: then every file seems to be missing.
  absl::Status marked() {
    const absl::Status mark = files_.look(root_ + "/" + kMark).status();
    return absl::IsNotFound(mark)
               ? absl::FailedPreconditionError(absl::StrCat("there is no ", root_, "/", kMark,
                                                            ": the file system of the blobs is not mounted; mount it"))
               : mark;
  }
  absl::Status absent(const std::string& name) {
    TESSERA_RETURN_IF_ERROR(counted(marked()));
    return absl::NotFoundError(absl::StrCat("there is no object ", placeOf(name)));
  }
  absl::Status counted(absl::Status status) {
    if (!status.ok()) ++requests_.failures;
    return status;
  }

  const std::string root_;
  FileSystem& files_;
  const std::string process_ = randomName();
  std::atomic<int64_t> written_ = 0;
  std::mutex mutex_;
  std::unordered_set<std::string> durable_;  ///< folders that this process has synced; at most 65,536 of a kind
  ObjectRequests requests_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> openFolderObjects(const std::string& folder, bool known,
                                                               FileSystem* files) {
  auto store = std::make_unique<FolderObjectStore>(folder, files != nullptr ? *files : systemFiles());
  TESSERA_RETURN_IF_ERROR(store->open(known));
  return store;
}

}  // namespace tessera::storage
