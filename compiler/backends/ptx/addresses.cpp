#include "compiler/backends/ptx/addresses.h"

namespace tessera::compiler::ptx {

using loopnest::Nest;

std::vector<Part> partsOf(const Nest& nest, const std::vector<int>& loops, const std::vector<int64_t>& strides) {
  std::vector<Part> parts;
  int64_t weight = 1;
  for (size_t l = loops.size(); l-- > 0;) {
    const int64_t extent = nest.loops[static_cast<size_t>(loops[l])].extent;
    const int64_t stride = strides[static_cast<size_t>(loops[l])];
    if (extent == 1) continue;
    if (!parts.empty() && stride == parts.back().stride * parts.back().extent) {
      parts.back().extent *= extent;
    } else {
      parts.push_back({weight, extent, stride});
    }
    weight *= extent;
  }
  if (!parts.empty()) parts.back().extent = 0;
  std::erase_if(parts, [](const Part& part) { return part.stride == 0; });
  return parts;
}

int64_t neighboursOf(const std::vector<Part>& parts, int64_t extent, int64_t most) {
  int64_t count = most;
  const auto divides = [&](int64_t number) {
    while (number % count != 0) count /= 2;
  };
  divides(extent);
  bool along = false;
  for (const Part& part : parts) {
    if (part.weight == 1 && part.stride == 1) {
      along = true;
      if (part.extent > 0) divides(part.extent);
    } else {
      divides(part.weight);
      divides(part.stride);
    }
  }
  return along ? count : 1;
}

int64_t alignmentOf(const Addresses& addresses, const std::vector<Part>& others, int64_t most) {
  int64_t count = most;
  while (addresses.constant % count != 0) count /= 2;
  for (const auto* parts : {&others, &addresses.kept, &addresses.summed}) {
    for (const Part& part : *parts) {
      while (part.stride % count != 0) count /= 2;
    }
  }
  return count;
}

int64_t runOf(const std::vector<Part>& parts, int64_t extent) {
  for (const Part& part : parts) {
    if (part.weight == 1 && part.stride == 1) return part.extent > 0 ? part.extent : extent;
  }
  return 1;
}

}  // namespace tessera::compiler::ptx
