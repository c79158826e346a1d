#include "workers/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "workers/file_descriptor.h"

namespace tessera::worker {
namespace {

constexpr uintptr_t kBlock = uintptr_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, missing in older headers

struct Range {
  uintptr_t from = 0, to = 0;
  int protection = 0;
};

bool isAllowed() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string text((std::istreambuf_iterator<char>(setting)), std::istreambuf_iterator<char>());
  return !text.empty() && text.find("[never]") == std::string::npos;
}

// The whole 2 MiB blocks of a line of /proc/self/maps, if it is a private, non-writable file mapping: "FROM-TO RIGHTS
// OFFSET DEVICE INODE PATH".
std::optional<Range> blocksOf(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (fields.size() < 6 || fields[4] == "0") return std::nullopt;
  const bool executable = fields[1] == "r-xp";
  if (!executable && fields[1] != "r--p") return std::nullopt;
  const std::pair<std::string, std::string> ends = absl::StrSplit(fields[0], '-');
  uintptr_t from = 0, to = 0;
  if (!absl::SimpleHexAtoi(ends.first, &from) || !absl::SimpleHexAtoi(ends.second, &to)) return std::nullopt;
  const Range blocks = {(from + kBlock - 1) / kBlock * kBlock, to / kBlock * kBlock,
                        executable ? PROT_READ | PROT_EXEC : PROT_READ};
  return blocks.from < blocks.to ? std::optional(blocks) : std::nullopt;
}

// Whether a page of the block is present in this process. See the kernel's Documentation/admin-guide/mm/pagemap.
bool isTouched(int pagemap, uintptr_t block) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  std::vector<uint64_t> entries(kBlock / page);
  const size_t bytes = entries.size() * sizeof(uint64_t);
  if (pread(pagemap, entries.data(), bytes, static_cast<off_t>(block / page * sizeof(uint64_t))) !=
      static_cast<ssize_t>(bytes)) {
    return false;
  }
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  return std::any_of(entries.begin(), entries.end(), [](uint64_t entry) { return (entry & kPresent) != 0; });
}

// Copies by a system call, because sanitizers would report reads between a program's variables.
bool copy(uintptr_t from, char* to, size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool move(const Range& range) {
  const size_t bytes = range.to - range.from;
  void* const memory =
      mmap(nullptr, bytes + kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  char* const start = static_cast<char*>(memory);
  const size_t before = (kBlock - reinterpret_cast<uintptr_t>(start) % kBlock) % kBlock;
  char* const aligned = start + before;
  // Anonymous small pages would be worse than file pages, because a fork copies their page tables.
  madvise(aligned, bytes, MADV_HUGEPAGE);
  // Prepare the copy completely, then replace the original mapping in one step: a failure leaves it unchanged.
  const bool moved =
      copy(range.from, aligned, bytes) && madvise(aligned, bytes, kCollapse) == 0 &&
      mprotect(aligned, bytes, range.protection) == 0 &&
      mremap(aligned, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(range.from)) != MAP_FAILED;
  // Unmap the alignment margins, or everything if the block was not moved.
  if (!moved) {
    munmap(memory, bytes + kBlock);
    return false;
  }
  if (before > 0) munmap(start, before);
  if (before < kBlock) munmap(aligned + bytes, kBlock - before);
  return true;
}

}  // namespace

int64_t moveToHugePages() {
  const FileDescriptor pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!isAllowed() || !pagemap.valid()) return 0;
  std::vector<Range> touched;  // adjacent blocks are merged, since each range is one more mapping for a fork to copy
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::optional<Range> blocks = blocksOf(line);
    if (!blocks) continue;
    for (uintptr_t block = blocks->from; block < blocks->to; block += kBlock) {
      if (!isTouched(pagemap.get(), block)) continue;
      if (!touched.empty() && touched.back().to == block && touched.back().protection == blocks->protection) {
        touched.back().to += kBlock;
      } else {
        touched.push_back({block, block + kBlock, blocks->protection});
      }
    }
  }
  int64_t bytes = 0;
  for (const Range& range : touched) {
    if (move(range)) bytes += static_cast<int64_t>(range.to - range.from);
  }
  return bytes;
}

}  // namespace tessera::worker
