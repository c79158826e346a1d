#include "storage/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/blob_path.h"
#include "proto/support/private_folder.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/composed_file.h"
#include "storage/sqlite/database.h"

namespace tessera::storage {
namespace {

namespace fs = std::filesystem;
constexpr size_t kChunkBytes = 1 << 20;

absl::Status failed(const std::error_code& error, const std::string& what, const fs::path& path) {
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot ", what, " ", path.string()));
}

/// Writes all dirty data of the folder's file system to the disk.
absl::Status flush(const fs::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", folder.string()));
  const bool good = syncfs(file) == 0;
  const int error = errno;
  close(file);
  return good ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat("cannot flush ", folder.string()));
}

/// Path of a blob's file relative to either blob folder.
fs::path placeOf(const std::string& sha256) { return fs::path(blobRelativePath(sha256)); }

/// Copies a file. std::filesystem::copy_file would report a full disk as an I/O error of the source file.
absl::Status writeAll(File& from, const fs::path& to) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<File> out,
                           systemFiles().open(to.string(), FileSystem::Access::kReadWriteCreate));
  absl::Status status = out->truncate(0);
  std::string chunk(kChunkBytes, '\0');
  for (int64_t offset = 0; status.ok();) {
    TESSERA_ASSIGN_OR_RETURN(size_t got, from.readAt(offset, chunk.data(), chunk.size()));
    if (got == 0) break;
    status = out->writeAt(offset, {chunk.data(), got});
    offset += static_cast<int64_t>(got);
  }
  return status;
}

/// Copies a blob atomically, under a temporary name.
absl::Status copyBlob(const fs::path& root, const fs::path& from, const std::string& sha256, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error) return failed(error, "make", to.parent_path());
  const fs::path fresh = to.string() + ".new";
  fs::remove(fresh, error);  // left by an interrupted copy; it may be read-only
  // A composed blob becomes a plain file.
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<File> source,
                           from == root / placeOf(sha256) ? systemFiles().open(from.string(), FileSystem::Access::kRead)
                                                          : openComposed(systemFiles(), root.string(), sha256));
  TESSERA_RETURN_IF_ERROR(writeAll(*source, fresh));
  fs::rename(fresh, to, error);
  return error ? failed(error, "name", to) : absl::OkStatus();
}

/// Copies the blobs that `to` does not have yet.
absl::Status copyBlobs(const fs::path& from, const fs::path& to, BackupStats& facts) {
  std::error_code error;
  if (!fs::exists(from, error)) return absl::OkStatus();
  for (auto entry = fs::recursive_directory_iterator(from, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().stem().string();
    // Skip unfinished uploads, damaged files and parts.
    if (!isSha256(name) ||
        (entry->path() != from / placeOf(name) && entry->path() != recipePath(from.string(), name))) {
      continue;
    }
    std::error_code gone;
    const fs::path place = to / placeOf(name);
    if (!entry->exists(gone) || fs::exists(place, gone)) continue;
    absl::Status status = copyBlob(from, entry->path(), name, place);
    if (absl::IsNotFound(status)) continue;  // deleted by a collection in the meantime
    if (!status.ok()) return status;
    ++facts.blobs;
    facts.bytes += static_cast<int64_t>(fs::file_size(place, gone));
  }
  return error ? failed(error, "read", from) : absl::OkStatus();
}

/// Copies a snapshot of the database.
absl::Status copyDatabase(const fs::path& from, const fs::path& to) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> source,
                           SqliteDatabase::open(from.string(), SqliteDatabase::Mode::kReadOnly));
  std::error_code error;
  fs::remove(to, error);
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> copy,
                           SqliteDatabase::open(to.string(), SqliteDatabase::Mode::kReadWriteCreate));
  sqlite3_backup* backup = sqlite3_backup_init(copy->handle(), "main", source->handle(), "main");
  if (backup == nullptr) return copy->error(sqlite3_errcode(copy->handle()));
  const int result = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  return result == SQLITE_DONE ? absl::OkStatus() : copy->error(result);
}

/// The restored database is another one than its origin, which may live on, so it does not own the origin's bucket
/// (storage/bucket_mark.h).
absl::Status forgetId(const fs::path& file) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                           SqliteDatabase::open(file.string(), SqliteDatabase::Mode::kReadWriteCreate));
  return database->execute("DELETE FROM settings WHERE name = 'id'");
}

absl::StatusOr<bool> hasTable(Database& database, std::string_view name) {
  return database.prepareOnce("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").bind(name).step();
}

/// Checks that each blob that the copied database names, and that the service has, is in the backup: in its database or
/// as a file of the right size.
absl::Status checkBlobs(const fs::path& database, const fs::path& blobs, const fs::path& origin) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> copy,
                           SqliteDatabase::open(database.string(), SqliteDatabase::Mode::kReadOnly));
  // Databases of earlier releases lack this table.
  const absl::StatusOr<bool> has_bytes = hasTable(*copy, "blob_bytes");
  if (!has_bytes.ok()) return has_bytes.status();
  Statement rows = copy->prepareOnce(
      *has_bytes
          ? "SELECT sha256, size, (SELECT size FROM blob_bytes WHERE blob_bytes.sha256 = blobs.sha256) FROM blobs"
          : "SELECT sha256, size, NULL FROM blobs");
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, rows.step());
    if (!row) return absl::OkStatus();
    if (!rows.isNull(2) && rows.integer(2) == rows.integer(1)) continue;
    const fs::path place = placeOf(std::string(rows.bytes(0)));
    std::error_code absent, gone;
    const auto size = fs::file_size(blobs / place, absent);
    const bool there = fs::exists(origin / place, gone) || fs::exists((origin / place).string() + kRecipeSuffix, gone);
    if (absent ? there : static_cast<int64_t>(size) != rows.integer(1)) {
      return absl::AbortedError(absl::StrCat("blob ", std::string(rows.bytes(0)),
                                             " is incomplete in the backup; start it again, it continues from here"));
    }
  }
}

/// Rejects data folders as targets: replacing a database that a service has open would lose the service's later writes.
absl::Status checkIsNoDataFolder(const fs::path& data, const fs::path& to) {
  std::error_code error;
  const fs::path source = fs::weakly_canonical(data, error), target = fs::weakly_canonical(to, error);
  if (error) return failed(error, "find", to);
  if (std::mismatch(source.begin(), source.end(), target.begin(), target.end()).first == source.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(to.string(), " is in the data folder ", data.string(), " itself; name a folder outside it"));
  }
  if (fs::exists(target / "tessera.db.lock", error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        to.string(),
        " is the data folder of a service (it contains tessera.db.lock), not a backup; name another folder"));
  }
  return absl::OkStatus();
}

/// Exclusive lock on the backup folder: concurrent backups would write the same database.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : file_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (file_ >= 0) close(file_);
  }
  [[nodiscard]] bool isHeld() const { return file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int file_;
};

}  // namespace

absl::StatusOr<BackupStats> backUp(const std::string& data_folder, const std::string& folder) {
  const fs::path data(data_folder), to(folder);
  if (!fs::exists(data / "tessera.db")) {
    return absl::NotFoundError(absl::StrCat("there is no ", (data / "tessera.db").string()));
  }
  TESSERA_RETURN_IF_ERROR(checkIsNoDataFolder(data, to));
  TESSERA_RETURN_IF_ERROR(createPrivateFolder(folder, {"tessera.db", "blobs"}));
  const FolderLock lock(to);
  if (!lock.isHeld()) return absl::AbortedError(absl::StrCat("another backup is being made in ", folder));
  BackupStats facts;
  const fs::path fresh = to / "tessera.db.new";
  // Copy blobs before the snapshot, so that the second pass, after it, is short.
  absl::Status status = copyBlobs(data / "blobs", to / "blobs", facts);
  if (status.ok()) status = copyDatabase(data / "tessera.db", fresh);
  // Blobs that the snapshot names and that came after the first pass.
  if (status.ok()) status = copyBlobs(data / "blobs", to / "blobs", facts);
  if (status.ok()) status = checkBlobs(fresh, to / "blobs", data / "blobs");
  if (status.ok()) status = flush(to);
  if (!status.ok()) return status;
  std::error_code error;
  // From here on the new backup replaces the earlier one.
  fs::rename(fresh, to / "tessera.db", error);
  if (error) return failed(error, "name", to / "tessera.db");
  for (const char* log : {"tessera.db.new-wal", "tessera.db.new-shm"}) fs::remove(to / log, error);
  if (status = flush(to); !status.ok()) return status;
  return facts;
}

absl::StatusOr<BackupStats> restore(const std::string& folder, const std::string& data_folder) {
  const fs::path from(folder), data(data_folder);
  if (!fs::exists(from / "tessera.db")) {
    return absl::NotFoundError(absl::StrCat(folder, " is not a backup: it has no tessera.db"));
  }
  if (fs::exists(data / "tessera.db")) {
    return absl::FailedPreconditionError(
        absl::StrCat(data_folder, " contains a database; move it away, or name another folder"));
  }
  TESSERA_RETURN_IF_ERROR(createPrivateFolder(data_folder, {"blobs", "signing.key"}));
  BackupStats facts;
  const fs::path fresh = data / "tessera.db.new";
  absl::Status status = copyBlobs(from / "blobs", data / "blobs", facts);
  if (status.ok()) status = copyDatabase(from / "tessera.db", fresh);
  if (status.ok()) status = checkBlobs(fresh, data / "blobs", from / "blobs");
  if (status.ok()) status = forgetId(fresh);
  if (status.ok()) status = flush(data);
  if (!status.ok()) return status;
  std::error_code error;
  fs::rename(fresh, data / "tessera.db", error);
  if (error) return failed(error, "name", data / "tessera.db");
  for (const char* log : {"tessera.db.new-wal", "tessera.db.new-shm"}) fs::remove(data / log, error);
  if (status = flush(data); !status.ok()) return status;
  return facts;
}

}  // namespace tessera::storage
