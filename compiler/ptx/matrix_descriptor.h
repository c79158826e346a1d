#pragma once

#include <cstdint>
#include <optional>

namespace tessera::compiler::ptx {

/// A matrix in shared memory as the manual of PTX describes it to wgmma: rows of 128 bytes whose chunks of 16 are
/// exchanged (the only way that is known here). Along rows are the sum's elements, or, turned, those of the other
/// index.
class MatrixDescriptor {
 public:
  /// None where the word means another layout, or rows that do not begin at a multiple of what repeats.
  static std::optional<MatrixDescriptor> of(uint64_t word);
  /// Of element `kept` (row of the first, column of the second source) and `summed`, of `bytes` each.
  uint64_t addressOf(int64_t kept, int64_t summed, int64_t bytes, bool turned) const;

 private:
  int64_t start_ = 0, panels_ = 0, groups_ = 0;  ///< bytes, to the next panel, to the next group of 8 rows
};

}  // namespace tessera::compiler::ptx
