#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// A simulated disk that knows which data are durable, for fault tests. testing/faulty_vfs.h makes it available to
/// SQLite, and testing/faulty_files.h to the blob store.
///
/// Written data stay in the page cache until their file is synced; creations, renames and removals of names until their
/// folder is synced. A power loss drops the page cache or keeps a random part of it: any subset of the writes since the
/// last sync, each torn at sector boundaries. Operations are numbered, and a plan says which of them fails and how.
namespace tessera::storage {

class FaultyDisk {
 public:
  enum class Fault {
    kNone,
    kError,  ///< EIO without effect; a failed sync drops the data to be written, as Linux does
    kFull,   ///< ENOSPC after half of a write; other operations that need space fail without effect
    kPowerLoss,
  };
  struct Plan {
    Fault fault = Fault::kNone;
    int64_t operation = 0;  ///< number of the operation, from 1, counted from plan()
    int64_t lasting = 1;    ///< number of consecutive operations that fail; a power loss lasts until restart()
  };
  /// Part of the page cache that survives a power loss.
  enum class Survival { kNothing, kSome, kEverything };

  struct Node;
  using Handle = std::shared_ptr<Node>;

  FaultyDisk();

  /// Sets the fault to inject, and restarts the count of operations.
  void plan(const Plan& plan);
  int64_t operations() const;
  /// Whether the planned fault has occurred.
  bool struck() const;
  bool powerLost() const;
  /// Fails all operations until restart().
  void cutPower();
  /// Restores power: open handles become invalid, and names and files are those that survived. All users of the disk
  /// must be gone.
  void restart(Survival survival, uint32_t seed);
  /// Makes syncs succeed without effect, as on a drive that acknowledges before writing.
  void ignoreSyncs(bool ignore);

  // Operations return 0 or an errno.
  int open(const std::string& path, bool create, Handle& handle);
  int read(const Handle& handle, int64_t offset, char* data, size_t size, size_t& got);
  int write(const Handle& handle, int64_t offset, std::string_view data);
  int truncate(const Handle& handle, int64_t size);
  int sync(const Handle& handle);
  int syncFolder(const std::string& path);
  int makeFolder(const std::string& path);
  int rename(const std::string& from, const std::string& to);
  int link(const std::string& from, const std::string& to);
  int remove(const std::string& path);
  /// Size and identity of a file; ENOENT if there is none.
  int look(const std::string& path, int64_t& size, uint64_t& identity);
  int look(const Handle& handle, int64_t& size, uint64_t& identity);
  int list(const std::string& path, std::vector<std::string>& names);

 private:
  /// Counts an operation; returns 0, or the errno to fail with. `half`: perform the first half of it.
  int begin(bool grows, bool* half);
  Handle find(const std::string& path) const;
  Handle folderOf(const std::string& path, std::string& name) const;
  void keep(const Handle& node, Survival survival, std::mt19937& random);

  mutable std::mutex mutex_;
  Handle root_;
  uint64_t next_identity_ = 1;
  Plan plan_;
  int64_t operations_ = 0;
  bool struck_ = false;
  bool power_lost_ = false;
  bool ignore_syncs_ = false;
};

}  // namespace tessera::storage
