#include "compiler/fusion/movement.h"

#include <algorithm>
#include <bit>

#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/structure.h"

namespace tessera::compiler::fusion {

Movement analyse(const Chain& chain, const Order& order, const Tiles& tiles, Intermediates intermediates) {
  const Structure structure(chain, order, intermediates);
  Movement result;
  result.tensor_volume_bytes.resize(chain.tensors.size());
  result.tensor_footprint_bytes.resize(chain.tensors.size());
  for (const Traffic& traffic : structure.traffic) {
    const double moved = structure.moved(traffic, tiles);
    result.tensor_volume_bytes[traffic.tensor] += moved;
    result.volume_bytes += moved;
  }
  for (size_t t = 0; t < chain.tensors.size(); ++t)
    result.tensor_footprint_bytes[t] = structure.bytes(static_cast<int>(t), tiles);
  for (const std::vector<int>& operands : structure.resident) {
    double held = 0;
    for (int tensor : operands) held += result.tensor_footprint_bytes[tensor];
    result.memory_bytes = std::max(result.memory_bytes, held);
  }
  return result;
}

double flopsOf(const Chain& chain, const Tiles& tiles) {
  double total = 0;
  for (const Member& member : chain.members) {
    // A block's work: the points of its output block, times the block of each loop that only sums.
    double work = member.flops * static_cast<double>(footprint(chain, member.output, tiles));
    for (int loop : member.loops) {
      const double blocks = static_cast<double>(ceilDiv(chain.loops[loop].extent, tiles[loop]));
      // The last block is narrower: on average a block is extent / blocks wide.
      if (!chain.accesses(member.output, loop)) {
        work *= static_cast<double>(chain.loops[loop].extent);
      } else {
        work *= blocks * std::min(1.0, static_cast<double>(chain.loops[loop].extent) / (blocks * tiles[loop]));
      }
    }
    total += work;
  }
  return total;
}

double flopsOf(const Chain& chain) {
  Tiles whole;
  for (const Loop& loop : chain.loops) whole.push_back(loop.extent);
  return flopsOf(chain, whole);
}

std::vector<int> orderedLoops(const Chain& chain) {
  std::vector<int> loops;
  for (size_t i = 0; i < chain.loops.size(); ++i)
    if (!chain.loops[i].whole && chain.loops[i].extent > 1) loops.push_back(static_cast<int>(i));
  return loops;
}

std::string nameOf(const Chain& chain, const Order& order) {
  const bool letters = std::ranges::all_of(order, [&](int loop) { return chain.loops[loop].name.size() == 1; });
  std::string name;
  for (int loop : order) name += (letters || name.empty() ? "" : ".") + chain.loops[loop].name;
  return name;
}

}  // namespace tessera::compiler::fusion
