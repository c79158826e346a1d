#pragma once

#include <memory>
#include <string>

#include "storage/testing/faulty_disk.h"

namespace tessera::storage {

struct FaultyVfsState;

/// The disk as an SQLite VFS, registered under a unique name during the lifetime of this object. Locks and the shared
/// memory of the WAL index are simulated separately, for any number of connections of this process.
class FaultyVfs {
 public:
  /// The disk must outlive this object.
  explicit FaultyVfs(FaultyDisk& disk);
  ~FaultyVfs();

  const std::string& name() const;

 private:
  const std::unique_ptr<FaultyVfsState> state_;
};

}  // namespace tessera::storage
