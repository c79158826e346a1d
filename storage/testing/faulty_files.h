#pragma once

#include <memory>

#include "storage/file_system.h"
#include "storage/testing/faulty_disk.h"

namespace tessera::storage {

/// The disk as blobs see it. The disk must outlive it. `freeBytes` answers a disk that is never full by itself.
std::unique_ptr<FileSystem> filesOn(FaultyDisk& disk);

}  // namespace tessera::storage
