#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::compiler {

/// Packs, in place, a row-major tensor laid out for `bounds` to the dense layout of `extents`, keeping each element's
/// coordinates. Both have the tensor's rank, and extents[d] <= bounds[d]. Bytes after the result are unchanged.
void packDense(void* data, size_t element_bytes, std::span<const int64_t> bounds, std::span<const int64_t> extents);

}  // namespace tessera::compiler
