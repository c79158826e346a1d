#include "compiler/fusion/testing/cache_simulator.h"

#include <algorithm>
#include <cstring>

namespace tessera::compiler::fusion {

CacheSimulator::CacheSimulator(const std::vector<Geometry>& levels, int64_t sample) : sample_(sample) {
  for (const Geometry& geometry : levels) {
    const int64_t sets = std::max<int64_t>(1, geometry.capacity_bytes / geometry.line_bytes / geometry.associativity);
    levels_.push_back({sets, geometry.associativity, std::vector<int64_t>(sets * geometry.associativity, -1)});
  }
}

bool CacheSimulator::Level::touch(int64_t line) {
  int64_t* set = &lines[(line % sets) * ways];
  if (set[0] == line) return true;
  int way = 1;
  while (way < ways && set[way] != line) ++way;
  const bool hit = way < ways;
  if (!hit) {
    --way;
    ++fills;
  }
  std::memmove(set + 1, set, way * sizeof(*set));
  set[0] = line;
  return hit;
}

}  // namespace tessera::compiler::fusion
