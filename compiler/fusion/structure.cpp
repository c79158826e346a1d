#include "compiler/fusion/structure.h"

#include <algorithm>

#include "compiler/fusion/ceil_div.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::fusion {
namespace {

bool contains(const std::vector<int>& list, int value) { return std::ranges::count(list, value) > 0; }

/// Returns the loops along which all of an intermediate must be retained: a private loop of its producer or consumers
/// that runs outside them revisits every block.
uint64_t retainedLoops(const Chain& chain, const Order& order, int tensor) {
  uint64_t mask = 0;
  bool revisited = false;
  for (int loop : order) {
    if (chain.uses(tensor, loop)) {
      if (revisited) mask |= uint64_t{1} << loop;
      continue;
    }
    for (const Statement& member : chain.statements)
      if ((member.output == tensor || contains(member.inputs, tensor)) && contains(member.loops, loop))
        revisited = true;
  }
  return mask;
}

}  // namespace

Structure::Structure(const Chain& chain, const Order& order, IntermediateExtent intermediates) : chain(&chain) {
  retained.assign(chain.accesses.size(), 0);
  // The loops that are left for later members: algorithm 1 drops a producer's private loops.
  Order left = order;
  for (size_t m = 0; m < chain.statements.size(); ++m) {
    const Statement& member = chain.statements[m];
    std::vector<int> operands = member.inputs;
    operands.push_back(member.output);
    std::ranges::sort(operands);
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    for (int tensor : operands) {
      if (chain.isIntermediate(tensor)) {
        if (intermediates == IntermediateExtent::kRetained) retained[tensor] = retainedLoops(chain, order, tensor);
        continue;
      }
      Traffic traffic{tensor, {}};
      // From the innermost loop outwards: loops reuse the block until one accesses the tensor; from there on every loop
      // replaces it.
      bool reused = true;
      for (size_t at = left.size(); at-- > 0;) {
        if (!contains(member.loops, left[at])) continue;
        if (chain.uses(tensor, left[at])) reused = false;
        if (!reused) traffic.replaced_by.push_back(left[at]);
      }
      std::ranges::sort(traffic.replaced_by);
      this->traffic.push_back(std::move(traffic));
    }
    resident.push_back(std::move(operands));
    // Private loops of this member do not repeat the members after it.
    std::erase_if(left, [&](int loop) {
      return contains(member.loops, loop) && std::ranges::none_of(chain.statements, [&](const Statement& other) {
               return &other != &member && contains(other.loops, loop);
             });
    });
  }
  std::ranges::sort(traffic);
}

double Structure::bytes(int tensor, const Tiles& tiles) const {
  double elements = 1;
  for (size_t d = 0; d < chain->accesses[tensor].subscripts.size(); ++d)
    elements *= static_cast<double>(extentOf<int64_t>(tensor, d, tiles));
  return elements * static_cast<double>(elementBytes(chain->accesses[tensor].dtype));
}

double Structure::moved(const Traffic& part, const Tiles& tiles) const {
  // The last block is narrower, so blocks count with their mean width.
  std::vector<double> mean(tiles.begin(), tiles.end());
  double times = 1;
  for (int loop : part.replaced_by) {
    const int64_t extent = chain->loops[loop].extent;
    const auto blocks = static_cast<double>(ceilDiv(extent, tiles[loop]));
    mean[loop] = static_cast<double>(extent) / blocks;
    times *= blocks;
  }
  double elements = times;
  for (size_t d = 0; d < chain->accesses[part.tensor].subscripts.size(); ++d)
    elements *= extentOf<double>(part.tensor, d, mean);
  return elements * static_cast<double>(elementBytes(chain->accesses[part.tensor].dtype));
}

}  // namespace tessera::compiler::fusion
