#include "compiler/fusion/movement.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/halo.h"
#include "compiler/fusion/structure.h"

namespace tessera::compiler::fusion {

Movement analyse(const Chain& chain, const Order& order, const Tiles& tiles, IntermediateExtent intermediates) {
  const Structure structure(chain, order, intermediates);
  Movement result;
  result.tensor_volume_bytes.resize(chain.accesses.size());
  result.tensor_footprint_bytes.resize(chain.accesses.size());
  for (const Traffic& traffic : structure.traffic) {
    const double moved = structure.moved(traffic, tiles);
    result.tensor_volume_bytes[traffic.tensor] += moved;
    result.volume_bytes += moved;
  }
  for (size_t t = 0; t < chain.accesses.size(); ++t)
    result.tensor_footprint_bytes[t] = structure.bytes(static_cast<int>(t), tiles);
  // MU is the largest footprint of all operands of one member.
  for (const std::vector<int>& operands : structure.resident) {
    double held = 0;
    for (int tensor : operands) held += result.tensor_footprint_bytes[tensor];
    result.memory_bytes = std::max(result.memory_bytes, held);
  }
  return result;
}

namespace {

/// `points`: the mean points of a block of a tensor.
double flopsWith(const Chain& chain, const Tiles& tiles, const std::function<double(int)>& points) {
  double total = 0;
  for (const Statement& member : chain.statements) {
    // A block's work: the points of its output block, times the block of each loop that is only summed.
    double work = member.body.flops * points(member.output);
    for (int loop : member.loops) {
      const double blocks = static_cast<double>(ceilDiv(chain.loops[loop].extent, tiles[loop]));
      // The last block is narrower: on average a block is extent / blocks wide.
      if (!chain.uses(member.output, loop)) {
        work *= static_cast<double>(chain.loops[loop].extent);
      } else {
        work *= blocks * std::min(1.0, static_cast<double>(chain.loops[loop].extent) / (blocks * tiles[loop]));
      }
    }
    total += work;
  }
  return total;
}

}  // namespace

double flopsOf(const Chain& chain, const Tiles& tiles) {
  return flopsWith(chain, tiles, [&](int tensor) { return static_cast<double>(footprint(chain, tensor, tiles)); });
}

double flopsInSequences(const Chain& chain, const Tiles& tiles, int loop, int64_t parts) {
  const auto blocks = static_cast<double>(ceilDiv(chain.loops[loop].extent, tiles[loop]));
  // A narrow last block adds fewer points, and the first block of each part computes its whole halo.
  const double narrowed = std::min(1.0, static_cast<double>(chain.loops[loop].extent) / (blocks * tiles[loop]));
  const double first = static_cast<double>(parts) / blocks / narrowed;
  return flopsWith(chain, tiles, [&](int tensor) {
    const auto added = static_cast<double>(newElements(chain, tensor, tiles, loop));
    return added + first * (static_cast<double>(footprint(chain, tensor, tiles)) - added);
  });
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
