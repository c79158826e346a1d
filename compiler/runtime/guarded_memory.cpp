#include "compiler/runtime/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <utility>

namespace tessera::compiler {
namespace {

// Inaccessible bytes on either side. Several pages, because a kernel that leaves a tensor may skip a page: rows of a
// large image.
constexpr size_t kGuardBytes = size_t{1} << 20;

// The pattern of the gap: every f16, bf16, f32 and f64 in it, at its alignment, is NaN, and it differs from kPoison, so
// that poison copied past the end is detected.
uint8_t slackAt(const uint8_t* at) { return reinterpret_cast<uintptr_t>(at) % 2 == 0 ? 0xf7 : 0xff; }

void fillSlack(uint8_t* begin, const uint8_t* end) {
  for (uint8_t* at = begin; at < end; ++at) *at = slackAt(at);
}

}  // namespace

GuardedMemory::~GuardedMemory() {
  if (mapping_) munmap(mapping_, mapped_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      pages_(other.pages_),
      page_bytes_(other.page_bytes_),
      data_(other.data_),
      bytes_(other.bytes_),
      alignment_(other.alignment_) {}

bool GuardedMemory::allocate(size_t bytes, size_t alignment) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) return false;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  page_bytes_ = (bytes + page - 1) / page * page;
  mapped_ = page_bytes_ + 2 * kGuardBytes;
  // NORESERVE: the inaccessible part never becomes memory and must not count towards the commit limit.
  void* mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = static_cast<uint8_t*>(mapping);
  pages_ = mapping_ + kGuardBytes;
  if (page_bytes_ > 0 && mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE) != 0) return false;
  bytes_ = bytes;
  alignment_ = alignment;
  place(End::kFront);
  return true;
}

void GuardedMemory::place(End end, uint8_t poison) {
  const size_t slack = page_bytes_ - bytes_;
  data_ = pages_ + (end == End::kFront ? 0 : slack / alignment_ * alignment_);
  uint8_t* const behind = data_ + bytes_;
  fillSlack(pages_, data_);
  std::memset(data_, poison, bytes_);
  fillSlack(behind, pages_ + page_bytes_);
}

void GuardedMemory::setWritable(bool writable) {
  if (page_bytes_ > 0) mprotect(pages_, page_bytes_, writable ? PROT_READ | PROT_WRITE : PROT_READ);
}

ptrdiff_t GuardedMemory::findOutOfBoundsWrite() const {
  const uint8_t* const behind = data_ + bytes_;
  for (const uint8_t* at = behind; at < pages_ + page_bytes_; ++at) {
    if (*at != slackAt(at)) return at - behind + 1;
  }
  for (const uint8_t* at = data_; at > pages_; --at) {
    if (at[-1] != slackAt(at - 1)) return at - 1 - data_;
  }
  return 0;
}

bool GuardedMemory::isNear(const void* address) const {
  const auto* at = static_cast<const uint8_t*>(address);
  return mapping_ && at >= mapping_ && at < mapping_ + mapped_;
}

ptrdiff_t GuardedMemory::distance(const void* address) const {
  const auto* at = static_cast<const uint8_t*>(address);
  if (at < data_) return at - data_;
  return at < data_ + bytes_ ? 0 : at - (data_ + bytes_) + 1;
}

}  // namespace tessera::compiler
