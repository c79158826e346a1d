#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::compiler {

/// Moves the elements of a row-major tensor that is laid out for `bounds` to where they lie in one of `extents`,
/// in place: element i of the dense result comes from the same coordinates. Both have the tensor's rank, and
/// extents[d] <= bounds[d]. Bytes behind the result keep what they had.
void packDense(void* data, size_t element_bytes, std::span<const int64_t> bounds, std::span<const int64_t> extents);

}  // namespace tessera::compiler
