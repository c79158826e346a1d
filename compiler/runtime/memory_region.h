#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::compiler {

/// Zeroed memory directly from the operating system: page aligned; from 2 MiB aligned to 2 MiB and advised to use huge
/// pages, because page faults and TLB misses cost a quarter of a kernel's speed. Pages become resident when first
/// touched.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// Returns false when the system refuses. Zero bytes are allowed and give null. Call either this or reserve(), once.
  bool allocate(size_t bytes);
  /// Reserves readable and writable addresses with small pages, until use() says how many leading bytes are in use.
  bool reserve(size_t bytes);
  /// Requests huge pages for the first `bytes`, as allocate() would. No effect if use() was called with as many bytes
  /// before.
  void use(size_t bytes);
  /// Makes the memory read-only: writing to it faults from now on.
  void protect();
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  size_t used_ = 0;
};

}  // namespace tessera::compiler
