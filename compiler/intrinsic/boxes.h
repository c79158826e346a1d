#pragma once

#include <cstdint>
#include <vector>

/// Points of boxes: indices from 0, last dimension fastest.
namespace tessera::compiler::intrinsic {

/// Calls `use` for every point of a box.
template <typename Use>
void forEachPoint(const std::vector<int64_t>& extents, Use&& use) {
  std::vector<int64_t> point(extents.size(), 0);
  while (true) {
    use(point);
    size_t d = extents.size();
    while (d > 0 && ++point[d - 1] == extents[d - 1]) point[--d] = 0;
    if (d == 0) return;
  }
}

inline int64_t rowMajor(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  int64_t address = 0;
  for (size_t d = 0; d < shape.size(); ++d) address = address * shape[d] + index[d];
  return address;
}

}  // namespace tessera::compiler::intrinsic
