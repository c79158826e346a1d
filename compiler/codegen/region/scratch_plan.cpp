#include "compiler/codegen/region/scratch_plan.h"

#include <algorithm>
#include <tuple>

namespace tessera::compiler::codegen {

int64_t placeByLifetime(std::vector<Lifetime>& lifetimes) {
  std::erase_if(lifetimes, [](const Lifetime& lifetime) { return lifetime.last < lifetime.first; });
  std::sort(lifetimes.begin(), lifetimes.end(), [](const Lifetime& a, const Lifetime& b) {
    return std::tie(b.bytes, a.number) < std::tie(a.bytes, b.number);
  });
  int64_t total = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    Lifetime& placed = lifetimes[i];
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; ++j) {
        const Lifetime& other = lifetimes[j];
        const bool alive = other.first <= placed.last && placed.first <= other.last;
        if (alive && other.offset < placed.offset + placed.bytes && placed.offset < other.offset + other.bytes) {
          placed.offset = other.offset + other.bytes;
          moved = true;
        }
      }
    }
    total = std::max(total, placed.offset + placed.bytes);
  }
  return total;
}

}  // namespace tessera::compiler::codegen
