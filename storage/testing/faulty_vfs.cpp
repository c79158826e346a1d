#include "storage/testing/faulty_vfs.h"

#include <sqlite3.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "storage/file_system.h"

namespace tessera::storage {
namespace {

constexpr int kShmLocks = SQLITE_SHM_NLOCK;
constexpr int kPageBytes = 4096;

/// State shared by the connections to one database: locks, and the WAL index.
struct Shared {
  int readers = 0;           ///< connections at SHARED or above
  void* reserved = nullptr;  ///< the connection at RESERVED or above
  bool pending = false;
  bool exclusive = false;
  std::vector<std::unique_ptr<char[]>> regions;
  int mapped = 0;
  std::array<int, kShmLocks> shm_readers{};
  std::array<void*, kShmLocks> shm_writer{};
};

/// A file of one connection. SQLite allocates the memory; xOpen constructs the object and xClose destroys it.
struct OpenFile {
  sqlite3_file base{};  ///< must be first, as SQLite requires
  FaultyDisk* disk = nullptr;
  std::mutex* mutex = nullptr;
  Shared* shared = nullptr;  ///< state of the main database
  FaultyDisk::Handle handle;
  std::string path;
  bool delete_on_close = false;
  /// The first sync also makes the name durable, as SQLite's VFS does for journals that it created.
  bool sync_folder = false;
  int lock = SQLITE_LOCK_NONE;
  bool mapped = false;
  std::array<bool, kShmLocks> shm_shared{};
  std::array<bool, kShmLocks> shm_exclusive{};
};

OpenFile* fileOf(sqlite3_file* file) { return reinterpret_cast<OpenFile*>(file); }

int resultOf(int error, int otherwise) { return error == 0 ? SQLITE_OK : error == ENOSPC ? SQLITE_FULL : otherwise; }

void unlockTo(OpenFile& file, int level) {
  Shared& shared = *file.shared;
  if (file.lock >= SQLITE_LOCK_RESERVED && level < SQLITE_LOCK_RESERVED) {
    shared.reserved = nullptr;
    shared.pending = false;
    shared.exclusive = false;
  }
  if (file.lock >= SQLITE_LOCK_SHARED && level < SQLITE_LOCK_SHARED) --shared.readers;
  file.lock = std::min(file.lock, level);
}

int closeFile(sqlite3_file* base) {
  OpenFile* file = fileOf(base);
  if (file->shared != nullptr) {
    const std::lock_guard lock(*file->mutex);
    unlockTo(*file, SQLITE_LOCK_NONE);
  }
  if (file->delete_on_close) file->disk->remove(file->path);
  file->~OpenFile();
  return SQLITE_OK;
}

int readFile(sqlite3_file* base, void* data, int size, sqlite3_int64 offset) {
  OpenFile* file = fileOf(base);
  size_t got = 0;
  const auto wanted = static_cast<size_t>(size);
  const int error = file->disk->read(file->handle, offset, static_cast<char*>(data), wanted, got);
  if (error != 0) return SQLITE_IOERR_READ;
  if (got == wanted) return SQLITE_OK;
  std::memset(static_cast<char*>(data) + got, 0, wanted - got);
  return SQLITE_IOERR_SHORT_READ;
}

int writeFile(sqlite3_file* base, const void* data, int size, sqlite3_int64 offset) {
  OpenFile* file = fileOf(base);
  return resultOf(file->disk->write(file->handle, offset, {static_cast<const char*>(data), static_cast<size_t>(size)}),
                  SQLITE_IOERR_WRITE);
}

int truncateFile(sqlite3_file* base, sqlite3_int64 size) {
  OpenFile* file = fileOf(base);
  return resultOf(file->disk->truncate(file->handle, size), SQLITE_IOERR_TRUNCATE);
}

int syncFile(sqlite3_file* base, int) {
  OpenFile* file = fileOf(base);
  if (file->disk->sync(file->handle) != 0) return SQLITE_IOERR_FSYNC;
  if (file->sync_folder) {
    if (file->disk->syncFolder(parentOf(file->path)) != 0) return SQLITE_IOERR_DIR_FSYNC;
    file->sync_folder = false;
  }
  return SQLITE_OK;
}

int sizeOfFile(sqlite3_file* base, sqlite3_int64* size) {
  OpenFile* file = fileOf(base);
  int64_t bytes = 0;
  uint64_t identity = 0;
  if (file->disk->look(file->handle, bytes, identity) != 0) return SQLITE_IOERR_FSTAT;
  *size = bytes;
  return SQLITE_OK;
}

int lockFile(sqlite3_file* base, int level) {
  OpenFile* file = fileOf(base);
  if (file->shared == nullptr) return SQLITE_OK;
  const std::lock_guard lock(*file->mutex);
  Shared& shared = *file->shared;
  if (file->lock >= level) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    if (shared.pending || shared.exclusive) return SQLITE_BUSY;
    ++shared.readers;
    file->lock = SQLITE_LOCK_SHARED;
    return SQLITE_OK;
  }
  if (shared.reserved != nullptr && shared.reserved != file) return SQLITE_BUSY;
  shared.reserved = file;
  if (level == SQLITE_LOCK_RESERVED) {
    file->lock = SQLITE_LOCK_RESERVED;
    return SQLITE_OK;
  }
  shared.pending = true;
  file->lock = SQLITE_LOCK_PENDING;
  if (shared.readers > 1) return SQLITE_BUSY;
  shared.exclusive = true;
  file->lock = SQLITE_LOCK_EXCLUSIVE;
  return SQLITE_OK;
}

int unlockFile(sqlite3_file* base, int level) {
  OpenFile* file = fileOf(base);
  if (file->shared == nullptr) return SQLITE_OK;
  const std::lock_guard lock(*file->mutex);
  unlockTo(*file, level);
  return SQLITE_OK;
}

int checkReservedLock(sqlite3_file* base, int* reserved) {
  OpenFile* file = fileOf(base);
  *reserved = 0;
  if (file->shared == nullptr) return SQLITE_OK;
  const std::lock_guard lock(*file->mutex);
  *reserved = file->shared->reserved != nullptr;
  return SQLITE_OK;
}

int controlFile(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sectorSize(sqlite3_file*) { return kPageBytes; }
/// As SQLite's VFS reports for any disk: a torn write does not affect bytes next to the written ones.
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

int mapShm(sqlite3_file* base, int region, int bytes, int extend, void volatile** memory) {
  OpenFile* file = fileOf(base);
  const std::lock_guard lock(*file->mutex);
  Shared& shared = *file->shared;
  if (!file->mapped) ++shared.mapped;
  file->mapped = true;
  const auto index = static_cast<size_t>(region);
  *memory = nullptr;
  if (index >= shared.regions.size() && extend == 0) return SQLITE_OK;
  while (index >= shared.regions.size()) {
    shared.regions.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
  }
  *memory = shared.regions[index].get();
  return SQLITE_OK;
}

int lockShm(sqlite3_file* base, int offset, int count, int flags) {
  OpenFile* file = fileOf(base);
  const std::lock_guard lock(*file->mutex);
  Shared& shared = *file->shared;
  const auto first = static_cast<size_t>(offset);
  const size_t last = first + static_cast<size_t>(count);
  for (size_t i = first; i < last && (flags & SQLITE_SHM_LOCK) != 0; ++i) {
    const bool written_by_other = shared.shm_writer[i] != nullptr && shared.shm_writer[i] != file;
    const bool read_by_other = shared.shm_readers[i] > (file->shm_shared[i] ? 1 : 0);
    if (written_by_other || ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && read_by_other)) return SQLITE_BUSY;
  }
  for (size_t i = first; i < last; ++i) {
    const bool take = (flags & SQLITE_SHM_LOCK) != 0;
    if ((flags & SQLITE_SHM_EXCLUSIVE) != 0) {
      if (take || file->shm_exclusive[i]) shared.shm_writer[i] = take ? file : nullptr;
      file->shm_exclusive[i] = take;
    } else {
      if (take != file->shm_shared[i]) shared.shm_readers[i] += take ? 1 : -1;
      file->shm_shared[i] = take;
    }
  }
  return SQLITE_OK;
}

void barrierShm(sqlite3_file*) { std::atomic_thread_fence(std::memory_order_seq_cst); }

int unmapShm(sqlite3_file* base, int) {
  OpenFile* file = fileOf(base);
  const std::lock_guard lock(*file->mutex);
  Shared& shared = *file->shared;
  for (size_t i = 0; i < kShmLocks; ++i) {
    if (file->shm_shared[i]) --shared.shm_readers[i];
    if (file->shm_exclusive[i]) shared.shm_writer[i] = nullptr;
    file->shm_shared[i] = file->shm_exclusive[i] = false;
  }
  if (file->mapped && --shared.mapped == 0) shared.regions.clear();  // the next connection that maps it rebuilds it
  file->mapped = false;
  return SQLITE_OK;
}

constexpr sqlite3_io_methods kMethods = {2,           closeFile,  readFile,        writeFile,  truncateFile,
                                         syncFile,    sizeOfFile, lockFile,        unlockFile, checkReservedLock,
                                         controlFile, sectorSize, characteristics, mapShm,     lockShm,
                                         barrierShm,  unmapShm,   nullptr,         nullptr};

int fullPath(sqlite3_vfs*, const char* name, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", name);
  return SQLITE_OK;
}
int randomness(sqlite3_vfs*, int size, char* out) {
  for (int i = 0; i < size; ++i) out[i] = static_cast<char>(i * 37 + 11);
  return size;
}
int sleepFor(sqlite3_vfs*, int micros) { return sqlite3_vfs_find(nullptr)->xSleep(sqlite3_vfs_find(nullptr), micros); }
int currentDay(sqlite3_vfs*, double* now) {
  *now = 2460676;
  return SQLITE_OK;
}
int lastError(sqlite3_vfs*, int, char*) { return 0; }

}  // namespace

struct FaultyVfsState {
  explicit FaultyVfsState(FaultyDisk& on) : disk(on) {}

  FaultyDisk& disk;
  std::string name;
  sqlite3_vfs vfs{};
  std::mutex mutex;
  std::map<std::string, Shared> databases;
};

namespace {

FaultyVfsState& stateOf(sqlite3_vfs* vfs) { return *static_cast<FaultyVfsState*>(vfs->pAppData); }

int openFile(sqlite3_vfs* vfs, const char* name, sqlite3_file* base, int flags, int* out_flags) {
  FaultyVfsState& state = stateOf(vfs);
  base->pMethods = nullptr;
  static std::atomic<int> temporaries = 0;
  const std::string path = name != nullptr ? name : "/temporary-" + std::to_string(++temporaries);
  int64_t size = 0;
  uint64_t identity = 0;
  const bool create = (flags & SQLITE_OPEN_CREATE) != 0;
  const bool made = create && state.disk.look(path, size, identity) == ENOENT;
  FaultyDisk::Handle handle;
  if (state.disk.open(path, create, handle) != 0) return SQLITE_CANTOPEN;
  OpenFile* file = new (base) OpenFile;
  file->base.pMethods = &kMethods;
  file->disk = &state.disk;
  file->mutex = &state.mutex;
  file->handle = std::move(handle);
  file->path = path;
  file->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  file->sync_folder = made && (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) != 0;
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    const std::lock_guard lock(state.mutex);
    file->shared = &state.databases[path];
  }
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int removeFile(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  FaultyVfsState& state = stateOf(vfs);
  const int error = state.disk.remove(name);
  if (error == ENOENT) return SQLITE_IOERR_DELETE_NOENT;
  if (error != 0) return SQLITE_IOERR_DELETE;
  return sync_folder == 0 || state.disk.syncFolder(parentOf(name)) == 0 ? SQLITE_OK : SQLITE_IOERR_DIR_FSYNC;
}

int accessFile(sqlite3_vfs* vfs, const char* name, int, int* result) {
  int64_t size = 0;
  uint64_t identity = 0;
  const int error = stateOf(vfs).disk.look(name, size, identity);
  *result = error == 0;
  return error == 0 || error == ENOENT ? SQLITE_OK : SQLITE_IOERR_ACCESS;
}

}  // namespace

FaultyVfs::FaultyVfs(FaultyDisk& disk) : state_(std::make_unique<FaultyVfsState>(disk)) {
  static std::atomic<int> made = 0;
  state_->name = "faulty-" + std::to_string(++made);
  sqlite3_vfs& vfs = state_->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = sizeof(OpenFile);
  vfs.mxPathname = 512;
  vfs.zName = state_->name.c_str();
  vfs.pAppData = state_.get();
  vfs.xOpen = openFile;
  vfs.xDelete = removeFile;
  vfs.xAccess = accessFile;
  vfs.xFullPathname = fullPath;
  vfs.xRandomness = randomness;
  vfs.xSleep = sleepFor;
  vfs.xCurrentTime = currentDay;
  vfs.xGetLastError = lastError;
  sqlite3_initialize();
  sqlite3_vfs_register(&vfs, 0);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&state_->vfs); }

const std::string& FaultyVfs::name() const { return state_->name; }

}  // namespace tessera::storage
