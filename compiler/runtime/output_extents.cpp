#include "compiler/runtime/output_extents.h"

#include <cstring>

namespace tessera::compiler {
namespace {

/// Packs the part of the tensor at `from`, whose outermost dimension is the first of `bounds`, to `to`, which is at or
/// before it. Returns the end of the packed part. No unread part is overwritten, since parts shrink and move in
/// ascending order.
char* pack(char* to, const char* from, size_t element_bytes, std::span<const int64_t> bounds,
           std::span<const int64_t> extents) {
  size_t part = element_bytes;  // bytes of the part below this dimension, in the present layout
  bool dense = true;            // whether that part is already packed
  for (size_t d = 1; d < bounds.size(); ++d) {
    part *= static_cast<size_t>(bounds[d]);
    dense &= bounds[d] == extents[d];
  }
  if (dense) {
    const size_t size = part * static_cast<size_t>(bounds.empty() ? 1 : extents[0]);
    if (to != from && size > 0) std::memmove(to, from, size);
    return to + size;
  }
  for (int64_t i = 0; i < extents[0]; ++i, from += part) {
    to = pack(to, from, element_bytes, bounds.subspan(1), extents.subspan(1));
  }
  return to;
}

}  // namespace

void packDense(void* data, size_t element_bytes, std::span<const int64_t> bounds, std::span<const int64_t> extents) {
  for (int64_t extent : extents) {
    if (extent == 0) return;
  }
  char* const bytes = static_cast<char*>(data);
  pack(bytes, bytes, element_bytes, bounds, extents);
}

}  // namespace tessera::compiler
