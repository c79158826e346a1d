#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::compiler {

/// A block of memory between two inaccessible regions: an access up to a page's length before or after it raises
/// SIGSEGV.
///
/// Pages are whole, so the block touches one end only: kFront puts its first byte directly after the region before it;
/// kBack puts its last byte as close to the region after it as the alignment allows (exactly next to it if the
/// alignment is the element size, which divides the block's size). The gap between the block and the inaccessible page
/// is filled with a pattern: findOutOfBoundsWrite() finds writes there, and reads give NaN in every floating-point
/// type. Needs libc only; one system call per allocation, none to place.
class GuardedMemory {
 public:
  enum class End { kFront, kBack };

  GuardedMemory() = default;
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  /// `alignment` is a power of two, at most 4096. Returns false when the system refuses. Zero bytes are allowed: any
  /// access to them faults. Call once.
  bool allocate(size_t bytes, size_t alignment);

  /// Moves the block to an end of the pages and fills it with `poison`.
  void place(End end, uint8_t poison = kPoison);
  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }

  /// Makes the pages read-only, or writable again. place() needs them writable.
  void setWritable(bool writable);

  /// Position of a write into the gap since the block was placed: 0 for none, -n for n bytes before data(), n for the
  /// n-th byte after the block (the one nearest to data()).
  ptrdiff_t findOutOfBoundsWrite() const;

  /// Whether an address is in the pages or in the inaccessible regions around them.
  bool isNear(const void* address) const;
  /// For such an address: its position in the measure of findOutOfBoundsWrite(), 0 within the block.
  ptrdiff_t distance(const void* address) const;

  /// NaN in every floating-point type; as an integer, out of range for any index.
  static constexpr uint8_t kPoison = 0xff;

 private:
  uint8_t* mapping_ = nullptr;
  size_t mapped_ = 0;
  uint8_t* pages_ = nullptr;  // the accessible part of the mapping
  size_t page_bytes_ = 0;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  size_t alignment_ = 1;
};

}  // namespace tessera::compiler
