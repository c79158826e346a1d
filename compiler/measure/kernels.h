#pragma once

#include <cstdint>

namespace tessera::compiler {

/// Loops that a core is measured by, for one width of its vectors. Steps are of no memory but what is named. All
/// addresses are multiples of a vector's size, and numbers of elements multiples of 16 vectors.
struct Kernels {
  int lanes;  ///< elements of f32 in a vector

  /// A step: 32 additions each of which waits for the one before, a cycle each, beside 16 multiply-adds of vectors that
  /// wait for nothing. So a step is 32 cycles at the frequency that cores have under vector load.
  void (*clock)(int64_t steps);
  /// A step: `independent` multiply-adds none of which waits for another.
  void (*multiplyAdds)(int64_t steps);
  int independent;
  /// A step: 16 multiply-adds each of which waits for the sum of the one before.
  void (*sum)(int64_t steps);
  /// A step: 8 times a load of a vector, an addition of vectors and four of integers, none waiting for another.
  void (*mixed)(const float* near, int64_t steps);

  /// A multiple of 128 elements, so many times.
  void (*read)(const float* from, int64_t elements, int64_t times);
  /// Reads vectors and multiplies each by one of the 16 at `near`, into sums.
  void (*readMultiplied)(const float* from, const float* near, int64_t elements);
  void (*write)(float* to, int64_t elements);
  void (*copy)(const float* from, float* to, int64_t elements);
  /// to[c * to_row + r] = from[r * from_row + c], in squares that are turned in registers. Rows and columns are
  /// multiples of `lanes`.
  void (*turn)(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns);
  /// Vectors of which each lane is stored alone, `stride` elements apart; the next vector begins an element on.
  void (*storeLanes)(float* to, int64_t stride, int64_t vectors);
};

/// The widest that this processor has, of vectors of at most so many bits; null where this program has none for it.
const Kernels* kernelsFor(int vector_bits);

}  // namespace tessera::compiler
