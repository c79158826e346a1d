#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compiler/loopnest/nest.h"

/// The tiles of the space: how the loops of one tile may be cut and ordered. The search and its tests enumerate tiles
/// by these functions only.
namespace tessera::compiler::dataflow_search {

/// One value per loop of the nest.
using Extents = absl::InlinedVector<int64_t, 8>;

struct TileLoop {
  int loop = 0;       ///< position in Nest::loops
  int64_t step = 1;   ///< iterations of `loop` per iteration of this one
  int64_t count = 2;  ///< iterations, at least 2
  bool spatial = false;
  bool operator==(const TileLoop&) const = default;
};
/// The loops of a tile, outermost first: spatial ones, then temporal ones.
using TileLoops = absl::InlinedVector<TileLoop, 8>;

/// Products of the counts of temporal and of spatial loops.
double temporalSteps(const TileLoops& loops);
int64_t instancesOf(const TileLoops& loops);

/// The element at an int position.
template <typename Container>
decltype(auto) at(Container& container, int position) {
  return container[static_cast<size_t>(position)];
}

/// Divisors in ascending order.
std::vector<int64_t> divisorsOf(int64_t number);

/// Loops of windows: they occur in a subscript together with a loop of a larger extent. Tiles outside of a leaf do not
/// cut them.
std::vector<bool> windowLoops(const loopnest::Nest& nest);

/// A cut of a tile's loops, without an order of the temporal ones. Returns false to end the enumeration.
using VisitCut = std::function<bool(const TileLoops& spatial, const TileLoops& temporal)>;

/// Visits each way to cut `loops` of the given extents: a spatial and a temporal count for each loop, divisors of the
/// iterations that are left; the product of the spatial counts is at most `fan_out`. Returns false if a visit did.
bool forEachCut(const Extents& extents, const std::vector<int>& loops, int64_t fan_out, const VisitCut& visit);

/// As forEachCut(), for a leaf: the iterations that no loop takes, one step of the unit, are at most `most_iterations`,
/// and no loop of them can take the next larger divisor within that limit.
bool forEachLeafCut(const Extents& extents, const std::vector<int>& loops, int64_t fan_out, double most_iterations,
                    const VisitCut& visit);

/// The loops that move each access, which the cost of an order depends on. moves[a][l]: loop l of the nest moves access
/// a.
struct Movers {
  std::vector<std::vector<bool>> moves;
  bool disjoint = false;  ///< every step of a loop that moves an access moves it to other elements
};
Movers moversOf(const loopnest::Nest& nest, int first_statement, int end_statement);

/// Up to three loops: all orders. More: for each access the orders in which the loops that do not move it are
/// innermost, with each of the others as the next one. `movers.disjoint`: of orders with equal movement only one.
std::vector<TileLoops> ordersOf(const TileLoops& temporal, const Movers& movers);

}  // namespace tessera::compiler::dataflow_search
