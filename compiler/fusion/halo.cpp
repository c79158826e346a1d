#include "compiler/fusion/halo.h"

#include <algorithm>

namespace tessera::compiler::fusion {
namespace {

int64_t sizeOf(const Subscript& subscript, const std::vector<int64_t>& tiles) {
  int64_t size = 1;
  for (const Term& term : subscript.terms) size += term.coefficient * (tiles[term.loop] - 1);
  return size;
}

/// Returns the distance of a dimension from one slice to the next; 0 if the dimension does not depend on `loop`.
int64_t stepOf(const Subscript& subscript, const std::vector<int64_t>& tiles, int loop) {
  return subscript.coefficientOf(loop) * tiles[loop];
}

int64_t addedAlong(const Subscript& subscript, const std::vector<int64_t>& tiles, int loop) {
  const int64_t size = sizeOf(subscript, tiles), step = stepOf(subscript, tiles, loop);
  return step == 0 ? size : std::min(size, step);
}

/// Returns the elements along a dimension of an input that `reader` needs for its new outputs, minus the new input
/// elements: those that must have been kept.
int64_t keptAlong(const Chain& chain, const Statement& reader, const Subscript& subscript,
                  const std::vector<int64_t>& tiles, int loop) {
  for (const Subscript& made : chain.accesses[reader.output].subscripts) {
    const int64_t step = stepOf(made, tiles, loop);
    if (step == 0) continue;
    const int64_t stride = stepOf(subscript, tiles, loop) / step;
    int64_t needed = stride * (addedAlong(made, tiles, loop) - 1) + 1;
    for (const Term& term : subscript.terms)
      if (term.loop != loop && !chain.uses(reader.output, term.loop))
        needed += term.coefficient * (tiles[term.loop] - 1);
    return std::max<int64_t>(0, needed - addedAlong(subscript, tiles, loop));
  }
  return 0;
}

}  // namespace

int64_t newElements(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop) {
  int64_t points = 1;
  for (const Subscript& subscript : chain.accesses[tensor].subscripts) points *= addedAlong(subscript, tiles, loop);
  return points;
}

int64_t haloElements(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop) {
  int64_t most = 0;
  // Each reader needs its own part of the overlap, and all of them share one buffer.
  for (const Statement& reader : chain.statements) {
    if (std::ranges::find(reader.inputs, tensor) == reader.inputs.end()) continue;
    int64_t points = 1, kept = 0;
    for (const Subscript& subscript : chain.accesses[tensor].subscripts) {
      if (stepOf(subscript, tiles, loop) == 0) {
        points *= sizeOf(subscript, tiles);
      } else {
        kept = keptAlong(chain, reader, subscript, tiles, loop);
      }
    }
    most = std::max(most, kept * points);
  }
  return most;
}

bool overlaps(const Chain& chain, const std::vector<int64_t>& tiles, int loop) {
  for (int tensor = 0; tensor < static_cast<int>(chain.accesses.size()); ++tensor)
    if (chain.isIntermediate(tensor) && newElements(chain, tensor, tiles, loop) < footprint(chain, tensor, tiles))
      return true;
  return false;
}

}  // namespace tessera::compiler::fusion
