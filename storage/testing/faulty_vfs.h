#pragma once

#include <memory>
#include <string>

#include "storage/testing/faulty_disk.h"

namespace tessera::storage {

struct FaultyVfsState;

/// The disk as SQLite sees it: a VFS registered under a name of its own for as long as this lives. Locks and the shared
/// memory of the write-ahead log's index are kept beside the disk, for any number of connections of this process.
class FaultyVfs {
 public:
  /// The disk must outlive it.
  explicit FaultyVfs(FaultyDisk& disk);
  ~FaultyVfs();

  const std::string& name() const;

 private:
  const std::unique_ptr<FaultyVfsState> state_;
};

}  // namespace tessera::storage
