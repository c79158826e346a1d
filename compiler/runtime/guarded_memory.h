#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::compiler {

/// Bytes between two unreadable pages: whatever reads or writes a page's length before or behind them stops there
/// with a SIGSEGV. Pages are whole, so the bytes touch one end only: kFront puts the first one right behind the page
/// before them, kBack the last one as close to the page behind them as their alignment allows (with the alignment of
/// an element, which divides their number: with nothing in between). What lies between bytes and page is filled with
/// a pattern: a write there is found by misplacedWrite(), a read gives NaN in every floating-point type.
/// Needs libc only; a system call for each allocation, none to place.
class GuardedMemory {
 public:
  enum class End { kFront, kBack };

  GuardedMemory() = default;
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  /// `alignment` is a power of two, at most 4096. False when the system refuses. Zero bytes are fine: any access to
  /// them is stopped. To be called once.
  bool allocate(size_t bytes, size_t alignment);

  /// Moves the bytes to an end of the pages; all of them are `poison` then.
  void place(End end, uint8_t poison = kPoison);
  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }

  /// Lets the pages be read only, or written again. place() needs them writable.
  void setWritable(bool writable);

  /// What was written between bytes and guard pages since they were placed: 0 for nothing, -n for a byte n before the
  /// first of data(), n for the n-th byte behind the last (the one nearest to data()).
  ptrdiff_t misplacedWrite() const;

  /// Whether an address is one of the pages or within reach of the unreadable ones.
  bool isNear(const void* address) const;
  /// For such an address: the same measure as misplacedWrite()'s, 0 within the bytes.
  ptrdiff_t distance(const void* address) const;

  /// NaN in every floating-point type; bounds of integers that no index may have.
  static constexpr uint8_t kPoison = 0xff;

 private:
  uint8_t* mapping_ = nullptr;
  size_t mapped_ = 0;
  uint8_t* pages_ = nullptr;  // what may be read of the mapping
  size_t page_bytes_ = 0;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  size_t alignment_ = 1;
};

}  // namespace tessera::compiler
