#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// A disk in memory that knows what is durable, for tests of what a service keeps. Two doors lead to it:
/// testing/faulty_vfs.h for SQLite, testing/faulty_files.h for blobs.
///
/// What was written is in the page cache until its file is synced; a name that was made, renamed or removed is until
/// its folder is synced. A power loss forgets the page cache, or keeps a random part of it: any of the writes since
/// the last sync, each torn at sectors. Every operation has a number, and a plan says which one fails and how.
namespace tessera::storage {

class FaultyDisk {
 public:
  enum class Fault {
    kNone,
    kError,  ///< EIO and nothing done; a failed sync drops what it should have written, as Linux does
    kFull,   ///< ENOSPC after half of a write; other operations that make or grow something fail without effect
    kPowerLoss,
  };
  struct Plan {
    Fault fault = Fault::kNone;
    int64_t operation = 0;  ///< counted from 1, since the plan was made
    int64_t lasting = 1;    ///< how many operations in a row fail; a power loss lasts until restart()
  };
  /// What of the page cache a power loss leaves.
  enum class Survival { kNothing, kSome, kEverything };

  struct Node;
  using Handle = std::shared_ptr<Node>;

  FaultyDisk();

  /// Counts operations from 0 again, the n-th of which will fail.
  void plan(const Plan& plan);
  int64_t operations() const;
  /// Whether the planned fault has struck.
  bool struck() const;
  bool powerLost() const;
  /// From now on every operation fails, until restart().
  void cutPower();
  /// Power is back: all handles are void, names and files are what the disk kept. Whoever used it must be gone.
  void restart(Survival survival, uint32_t seed);
  /// Syncs are said to succeed and do nothing, as with a drive that lies.
  void ignoreSyncs(bool ignore);

  // Operations answer 0 or an errno.
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
  /// Size and identity of a file; ENOENT when there is none.
  int look(const std::string& path, int64_t& size, uint64_t& identity);
  int look(const Handle& handle, int64_t& size, uint64_t& identity);
  int list(const std::string& path, std::vector<std::string>& names);

 private:
  /// Counts an operation; 0 when it may go on, else what it fails with. `half`: the first half is to be done.
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
