#pragma once

#include <cstdint>

namespace tessera::worker {

/// Moves what this process has read or executed of its program and libraries into huge pages of its own, at the same
/// addresses: each block of 2 MiB of a private mapping of a file that cannot be written and of which some page is
/// present. A fork then has all of a block by one entry of a table that is copied, where it would map each small page
/// of a file anew at its first touch (a fork does not copy the tables of files), and code is found with fewer misses of
/// the TLB. Costs the memory of the blocks, once for this process and all its forks.
/// Returns the bytes that were moved: 0 where the kernel gives no huge pages (transparent_hugepage/enabled is never,
/// or a Linux before 6.1). What cannot be moved stays as it is. Call it before the first thread is started.
int64_t moveToHugePages();

}  // namespace tessera::worker
