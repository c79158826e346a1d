#pragma once

#include <cstdint>

namespace tessera::compiler {

/// Loops that measure a core, for one vector width. They access only the memory passed to them. All addresses are
/// multiples of a vector's size, and numbers of elements are multiples of 16 vectors.
struct Kernels {
  int lanes;  ///< f32 elements in a vector

  /// A step: a chain of 32 dependent additions of one cycle each, along with 16 independent vector multiply-adds. So a
  /// step takes 32 cycles at the frequency of a core under vector load.
  void (*clock)(int64_t steps);
  /// A step: `independent` multiply-adds that do not depend on each other.
  void (*multiplyAdds)(int64_t steps);
  int independent;
  /// A step: a chain of 16 multiply-adds, each adding to the result of the one before.
  void (*sum)(int64_t steps);
  /// A step: 8 times a vector load, a vector addition and four integer additions, all independent.
  void (*mixed)(const float* near, int64_t steps);

  /// Reads `elements` (a multiple of 128) `times` times.
  void (*read)(const float* from, int64_t elements, int64_t times);
  /// Reads vectors and multiplies each by one of the 16 at `near`, accumulating sums.
  void (*readMultiplied)(const float* from, const float* near, int64_t elements);
  void (*write)(float* to, int64_t elements);
  void (*copy)(const float* from, float* to, int64_t elements);
  /// to[c * to_row + r] = from[r * from_row + c], in squares that are transposed in registers. Rows and columns must be
  /// multiples of `lanes`.
  void (*turn)(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns);
  /// Stores each lane of a vector separately, `stride` elements apart; the next vector begins one element later.
  void (*storeLanes)(float* to, int64_t stride, int64_t vectors);
};

/// The widest kernels that this processor supports, with vectors of at most `vector_bits`; null if this program has
/// none for it.
const Kernels* kernelsFor(int vector_bits);

}  // namespace tessera::compiler
