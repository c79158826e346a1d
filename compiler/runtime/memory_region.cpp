#include "compiler/runtime/memory_region.h"

#include <sys/mman.h>

#include <limits>

namespace tessera::compiler {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

MemoryRegion::~MemoryRegion() {
  if (mapping_) munmap(mapping_, mapped_);
}

bool MemoryRegion::allocate(size_t bytes) {
  if (!reserve(bytes)) return false;
  use(bytes);
  return true;
}

bool MemoryRegion::reserve(size_t bytes) {
  if (bytes == 0) return true;
  const bool huge = bytes >= kHugePage;
  const size_t slack = huge ? kHugePage : 0;
  if (bytes > std::numeric_limits<size_t>::max() / 2) return false;
  void* mapping = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = mapping;
  mapped_ = bytes + slack;
  auto at = reinterpret_cast<uintptr_t>(mapping);
  if (huge) {
    at = (at + kHugePage - 1) / kHugePage * kHugePage;
    // Where the system gives huge pages by default, touching a small part would take a whole one.
    madvise(reinterpret_cast<void*>(at), bytes, MADV_NOHUGEPAGE);
  }
  data_ = reinterpret_cast<uint8_t*>(at);
  return true;
}

void MemoryRegion::protect() {
  if (mapping_) mprotect(mapping_, mapped_, PROT_READ);
}

void MemoryRegion::use(size_t bytes) {
  if (bytes <= used_) return;
  used_ = bytes;
  // Advice only: a kernel without huge pages runs correctly, too.
  if (bytes >= kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
}

}  // namespace tessera::compiler
