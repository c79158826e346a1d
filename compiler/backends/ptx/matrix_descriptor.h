#pragma once

#include <cstdint>
#include <optional>

namespace tessera::compiler::ptx {

/// A matrix in shared memory in wgmma's descriptor format (PTX manual): rows of 128 bytes whose 16-byte chunks are
/// swizzled, the only layout supported here. Rows run along the sum or, transposed, along the other index.
class MatrixDescriptor {
 public:
  /// Decodes a descriptor. Nothing if it specifies another layout, or rows not aligned to the swizzle's period.
  static std::optional<MatrixDescriptor> of(uint64_t word);
  /// Address of the element at `kept` (row of the first, column of the second source) and `summed`; elements have
  /// `bytes` bytes.
  uint64_t addressOf(int64_t kept, int64_t summed, int64_t bytes, bool turned) const;

 private:
  /// start, distance to the next panel, distance to the next group of 8 rows; bytes
  int64_t start_ = 0, panels_ = 0, groups_ = 0;
};

}  // namespace tessera::compiler::ptx
