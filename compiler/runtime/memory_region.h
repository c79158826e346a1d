#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::compiler {

/// Zeroed memory straight from the operating system: page aligned, from 2 MiB on aligned to that and advised
/// to use huge pages, since page faults and TLB misses cost a quarter of a kernel's speed. Pages become
/// resident when first touched.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// False when the system refuses. Zero bytes are fine and give null. To be called once, or reserve().
  bool allocate(size_t bytes);
  /// Addresses that may be read and written, whose pages are small until use() says how much of the front matters.
  bool reserve(size_t bytes);
  /// Large pages for the first `bytes`, as allocate() of so many has them. Nothing where that was said before.
  void use(size_t bytes);
  /// Writing to it is a fault from now on.
  void protect();
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  size_t used_ = 0;
};

}  // namespace tessera::compiler
