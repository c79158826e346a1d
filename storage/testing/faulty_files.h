#pragma once

#include <memory>

#include "storage/file_system.h"
#include "storage/testing/faulty_disk.h"

namespace tessera::storage {

/// The disk as a FileSystem for blobs. The disk must outlive it. `freeBytes` reports a disk that is never full.
std::unique_ptr<FileSystem> filesOn(FaultyDisk& disk);

}  // namespace tessera::storage
