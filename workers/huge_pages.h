#pragma once

#include <cstdint>

namespace tessera::worker {

/// Copies the program and library pages that this process has touched to anonymous huge pages at the same addresses:
/// each 2 MiB block of a private, non-writable file mapping in which some page is present. Forks of this process start
/// faster with such blocks: fork() copies the one page-table entry of a block, but not the page tables of file
/// mappings, so that a forked process takes a page fault at its first access to each small file page. Code in huge
/// pages also causes fewer TLB misses. The memory of the blocks is used once for this process and all its forks.
/// Returns the bytes that were moved: 0 if the kernel has no huge pages (transparent_hugepage/enabled is never, or
/// Linux before 6.1). Blocks that cannot be moved stay unchanged. Call it before the first thread is started.
int64_t moveToHugePages();

}  // namespace tessera::worker
