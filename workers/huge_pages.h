#pragma once

#include <cstdint>

namespace tessera::worker {

/// Copies the program and library pages that this process has touched to anonymous huge pages at the same addresses:
/// each 2 MiB block of a private, non-writable file mapping in which some page is present. A fork copies the page-table
/// entry of such a block, whereas it maps each small file page anew at its first access (a fork does not copy page
/// tables of file mappings). Code in huge pages also causes fewer TLB misses. The memory of the blocks is used once for
/// this process and all its forks. Returns the bytes that were moved: 0 if the kernel has no huge pages
/// (transparent_hugepage/enabled is never, or Linux before 6.1). Blocks that cannot be moved stay unchanged. Call it
/// before the first thread is started.
int64_t moveToHugePages();

}  // namespace tessera::worker
