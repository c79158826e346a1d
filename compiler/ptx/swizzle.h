#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/target.pb.h"

/// Rows in a memory of banks: which accesses of a group of threads meet in one bank, and where rows are put so that
/// they do not.
namespace tessera::compiler::ptx {

/// A memory's banks as a description has them.
struct Banks {
  int64_t count = 0;  ///< 0: not described
  int64_t bytes = 0;  ///< of one, handed out in a cycle
  int64_t line() const { return count * bytes; }
};
Banks banksOf(const v1::MemoryLevel& level);

/// Chunks of a row are exchanged by an exclusive or with digits of the row's number: chunk ^ (row >> shift & mask).
struct Swizzle {
  int64_t row_bytes = 0, chunk_bytes = 16;
  int64_t shift = 0, mask = 0;  ///< mask 0: rows as they are
  int64_t addressOf(int64_t row, int64_t byte) const {
    return row * row_bytes + (byte ^ ((row >> shift & mask) * chunk_bytes));
  }
  /// Rows after which the exchange repeats.
  int64_t period() const { return mask == 0 ? 1 : (mask + 1) << shift; }
};

/// Rows of a power of two bytes so that chunks of the same column of consecutive rows lie in as many banks as there
/// are: rows that share a line of all banks are exchanged alike, and as many lines differ as a row (or a line) has
/// chunks.
Swizzle swizzleOf(int64_t row_bytes, int64_t chunk_bytes, const Banks& banks);

/// Cycles that a memory takes to serve accesses of `bytes` at `addresses` at once: the most different words in one
/// bank. Equal words are handed out together.
int64_t cyclesOf(const std::vector<int64_t>& addresses, int64_t bytes, const Banks& banks);

}  // namespace tessera::compiler::ptx
