#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/target.pb.h"

/// Rows in a memory of banks: which accesses of a group of threads conflict in one bank, and a placement of rows that
/// avoids this.
namespace tessera::compiler::ptx {

/// A memory's banks according to its description.
struct Banks {
  int64_t count = 0;  ///< 0: not described
  int64_t bytes = 0;  ///< width of one bank, delivered per cycle
  int64_t line() const { return count * bytes; }
};
Banks banksOf(const v1::MemoryLevel& level);

/// Chunks of a row are permuted by an exclusive or with digits of the row's number: chunk ^ (row >> shift & mask).
struct Swizzle {
  int64_t row_bytes = 0, chunk_bytes = 16;
  int64_t shift = 0, mask = 0;  ///< mask 0: no permutation
  int64_t addressOf(int64_t row, int64_t byte) const {
    return row * row_bytes + (byte ^ ((row >> shift & mask) * chunk_bytes));
  }
  /// Number of rows after which the permutation repeats.
  int64_t period() const { return mask == 0 ? 1 : (mask + 1) << shift; }
};

/// Chooses the permutation for rows of a power of two bytes such that chunks in the same column of consecutive rows are
/// in different banks, as far as there are banks: rows that share a line of all banks have the same permutation, and as
/// many lines differ as a row (or a line) has chunks.
Swizzle swizzleOf(int64_t row_bytes, int64_t chunk_bytes, const Banks& banks);

/// Cycles that a memory needs to serve accesses of `bytes` at `addresses` at once: the largest number of distinct words
/// in one bank. Equal words are broadcast.
int64_t cyclesOf(const std::vector<int64_t>& addresses, int64_t bytes, const Banks& banks);

}  // namespace tessera::compiler::ptx
