#include "compiler/dataflow_search/tile_space.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tessera::compiler::dataflow_search {
namespace {

/// Chooses the counts of one loop after another.
class Cutter {
 public:
  Cutter(Extents extents, const std::vector<int>& loops, int64_t fan_out, double most_iterations, const VisitCut& visit)
      : loops_(loops), fan_out_(fan_out), most_iterations_(most_iterations), visit_(visit), left_(std::move(extents)) {}

  bool run() { return next(0, fan_out_, 1); }

 private:
  bool next(size_t position, int64_t units, double iterations) {
    if (position == loops_.size()) return finish(iterations);
    const int loop = loops_[position];
    const int64_t extent = at(left_, loop);
    for (const int64_t spatial : divisorsOf(extent)) {
      if (spatial > units) break;
      if (spatial > 1) spatial_.push_back({.loop = loop, .step = extent / spatial, .count = spatial, .spatial = true});
      for (const int64_t step : divisorsOf(extent / spatial)) {
        if (isLeaf() && step > 1 && iterations * static_cast<double>(step) > most_iterations_) break;
        const int64_t count = extent / spatial / step;
        if (count > 1) temporal_.push_back({.loop = loop, .step = step, .count = count});
        at(left_, loop) = step;
        const bool goes_on = next(position + 1, units / spatial, iterations * static_cast<double>(step));
        if (count > 1) temporal_.pop_back();
        if (!goes_on) return false;
      }
      if (spatial > 1) spatial_.pop_back();
    }
    at(left_, loop) = extent;
    return true;
  }

  bool finish(double iterations) {
    if (isLeaf()) {
      for (const TileLoop& loop : temporal_) {
        int64_t factor = 2;
        while (loop.count % factor != 0) ++factor;
        if (iterations * static_cast<double>(factor) <= most_iterations_) return true;  // could be larger
      }
    }
    return visit_(spatial_, temporal_);
  }

  bool isLeaf() const { return most_iterations_ > 0; }

  const std::vector<int>& loops_;
  const int64_t fan_out_;
  const double most_iterations_;
  const VisitCut& visit_;
  Extents left_;
  TileLoops spatial_, temporal_;
};

/// The suffix of loops that do not move the access, as a set of positions.
uint64_t keptAcross(const TileLoops& order, const std::vector<bool>& moves) {
  uint64_t kept = 0;
  for (auto loop = order.rbegin(); loop != order.rend() && !at(moves, loop->loop); ++loop)
    kept |= uint64_t{1} << loop->loop;
  return kept;
}

}  // namespace

double temporalSteps(const TileLoops& loops) {
  double steps = 1;
  for (const TileLoop& loop : loops)
    if (!loop.spatial) steps *= static_cast<double>(loop.count);
  return steps;
}

int64_t instancesOf(const TileLoops& loops) {
  int64_t instances = 1;
  for (const TileLoop& loop : loops)
    if (loop.spatial) instances *= loop.count;
  return instances;
}

std::vector<int64_t> divisorsOf(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    small.push_back(divisor);
    if (divisor * divisor != number) large.push_back(number / divisor);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<bool> windowLoops(const loopnest::Nest& nest) {
  std::vector<bool> windows(nest.loops.size(), false);
  for (const loopnest::Access& access : nest.accesses) {
    for (const loopnest::Subscript& subscript : access.subscripts) {
      int64_t largest = 0;
      for (const loopnest::Term& term : subscript.terms) largest = std::max(largest, at(nest.loops, term.loop).extent);
      for (const loopnest::Term& term : subscript.terms)
        if (at(nest.loops, term.loop).extent < largest) at(windows, term.loop) = true;
    }
  }
  return windows;
}

bool forEachCut(const Extents& extents, const std::vector<int>& loops, int64_t fan_out, const VisitCut& visit) {
  return Cutter(extents, loops, fan_out, 0, visit).run();
}

bool forEachLeafCut(const Extents& extents, const std::vector<int>& loops, int64_t fan_out, double most_iterations,
                    const VisitCut& visit) {
  return Cutter(extents, loops, fan_out, std::max(1.0, most_iterations), visit).run();
}

Movers moversOf(const loopnest::Nest& nest, int first_statement, int end_statement) {
  Movers movers{.moves = {}, .disjoint = end_statement == first_statement + 1};
  const auto add = [&](int position) {
    const loopnest::Access& access = at(nest.accesses, position);
    std::vector<bool> moves(nest.loops.size(), false);
    for (const loopnest::Subscript& subscript : access.subscripts) {
      for (const loopnest::Term& term : subscript.terms) {
        movers.disjoint = movers.disjoint && subscript.terms.size() == 1 && !at(moves, term.loop);
        at(moves, term.loop) = true;
      }
    }
    movers.moves.push_back(std::move(moves));
  };
  for (int s = first_statement; s < end_statement; ++s) {
    for (const int input : at(nest.statements, s).inputs) add(input);
    add(at(nest.statements, s).output);
  }
  return movers;
}

std::vector<TileLoops> ordersOf(const TileLoops& temporal, const Movers& movers) {
  std::vector<TileLoops> orders;
  if (temporal.size() <= 3) {
    absl::InlinedVector<size_t, 3> places;
    for (size_t i = 0; i < temporal.size(); ++i) places.push_back(i);
    do {
      TileLoops& order = orders.emplace_back();
      for (const size_t place : places) order.push_back(temporal[place]);
    } while (std::ranges::next_permutation(places).found);
  } else {
    for (const std::vector<bool>& moves : movers.moves) {
      for (size_t next = 0; next < temporal.size(); ++next) {
        if (!at(moves, temporal[next].loop)) continue;
        TileLoops order;
        for (size_t i = 0; i < temporal.size(); ++i)
          if (i != next && at(moves, temporal[i].loop)) order.push_back(temporal[i]);
        order.push_back(temporal[next]);
        for (const TileLoop& loop : temporal)
          if (!at(moves, loop.loop)) order.push_back(loop);
        if (std::ranges::find(orders, order) == orders.end()) orders.push_back(std::move(order));
      }
    }
    if (orders.empty()) orders.push_back(temporal);
  }
  if (!movers.disjoint || orders.size() == 1) return orders;
  std::set<std::vector<uint64_t>> seen;
  std::erase_if(orders, [&](const TileLoops& order) {
    std::vector<uint64_t> kept;
    for (const std::vector<bool>& moves : movers.moves) kept.push_back(keptAcross(order, moves));
    return !seen.insert(std::move(kept)).second;
  });
  return orders;
}

}  // namespace tessera::compiler::dataflow_search
