#include "compiler/dataflow_search/operator_model.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "compiler/cost/movement.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::dataflow_search {
namespace {

using cost::BoundAccess;
using cost::BoundLoop;
using cost::BoundNode;
using loopnest::Subscript;
using loopnest::Term;

/// Nodes of the bound tree: the shared tiles, the operator's own outer tiles, the measured tile, the tile inside of it,
/// and a sibling, which evicts.
constexpr int kShared = 0, kOuterTiles = 1, kTile = 2, kInner = 3, kSibling = 4;

int64_t spanOf(const Subscript& subscript, const Extents& extents) {
  int64_t span = 1;
  for (const Term& term : subscript.terms) span += std::abs(term.coefficient) * (at(extents, term.loop) - 1);
  return span;
}

/// All steps of the space divide the iterations around them. Sets the fields that an analysis of partial steps has.
template <typename View>
void declareEven(View& view) {
  if constexpr (requires { view.follows; }) view.follows.resize(view.loops.size());
  if constexpr (requires { view.even_loops; }) view.even_loops = view.loops.size();
}

int64_t distanceOf(const Subscript& subscript, const Extents& advance) {
  int64_t distance = 0;
  for (const Term& term : subscript.terms) distance += term.coefficient * at(advance, term.loop);
  return distance;
}

}  // namespace

OperatorModel::OperatorModel(const loopnest::Nest& nest, int statement) : nest_(nest), statement_(statement) {
  const loopnest::Statement& own = at(nest.statements, statement);
  tree_.accesses.resize(2);
  const auto add = [&](int position, bool writes) {
    const loopnest::Access& access = at(nest.accesses, position);
    auto found = std::ranges::find(tree_.tensors, access.name);
    if (found == tree_.tensors.end()) {
      tree_.tensors.push_back(access.name);
      tree_.word_bytes.push_back(static_cast<int>(std::max<int64_t>(1, elementBytes(access.dtype))));
      tree_.writer.push_back(-1);
      tree_.readers.emplace_back();
      found = tree_.tensors.end() - 1;
    }
    const auto tensor = static_cast<int>(found - tree_.tensors.begin());
    tree_.accesses[0].push_back({.tensor = tensor, .writes = writes, .access = &access});
    if (writes) {
      at(tree_.writer, tensor) = 0;
    } else {
      at(tree_.readers, tensor).push_back(0);
    }
  };
  for (const int input : own.inputs) add(input, false);
  add(own.output, true);
  tree_.statements.resize(2);
}

void OperatorModel::surround(const Surroundings& surroundings) {
  // Statement 0 is the operator; statement 1, at the shared node, stands for the readers of its result.
  tree_.statements[0] = surroundings.view;
  tree_.statements[1].leaf = kShared;
  around_ = surroundings.view.loops.size();
  steps_ = 1;
  for (size_t i = 0; i < around_; ++i) {
    BoundLoop& loop = tree_.statements[0].loops[i];
    loop.node = i < surroundings.shared ? kShared : kOuterTiles;
    steps_ *= static_cast<double>(loop.count);
  }
  at(tree_.readers, tree_.accesses[0].back().tensor).assign(surroundings.consumed_inside ? 1 : 0, 1);
  tree_.nodes.assign(5, BoundNode{});
  BoundNode& shared = at(tree_.nodes, kShared);
  shared.first_loop = around_;  // the source of the tile's buffers is inside of all loops around
  shared.end_loop = surroundings.shared;
  shared.join = surroundings.evicting ? v1::Tile::SEQ : v1::Tile::SHAR;
  shared.children = {kOuterTiles, kSibling};
  at(tree_.nodes, kOuterTiles) = {.parent = kShared, .children = {kTile}};
  at(tree_.nodes, kOuterTiles).end_loop = around_;
  at(tree_.nodes, kSibling).parent = kShared;
}

BoundaryBytes OperatorModel::measure(int level, const TileLoops& loops) {
  cost::StatementView& view = tree_.statements[0];
  view.loops.resize(around_);
  view.advances.resize(around_);
  view.extents.resize(around_ + 1);
  for (const TileLoop& loop : loops) {
    view.loops.push_back(
        {.loop = loop.loop, .step = loop.step, .count = loop.count, .spatial = loop.spatial, .unit = 0, .node = kTile});
    at(view.advances.emplace_back(nest_.loops.size(), 0), loop.loop) = loop.step;
    view.extents.emplace_back(view.extents.back());
    at(view.extents.back(), loop.loop) = loop.step;
  }
  declareEven(view);
  const bool leaf = level == 0;
  // The nodes outside have the tile's own level, so that no buffer of the tile is measured.
  for (const int outside : {kShared, kOuterTiles, kSibling}) at(tree_.nodes, outside).level = level;
  BoundNode& tile = at(tree_.nodes, kTile);
  tile = {.parent = kOuterTiles, .level = level, .join = v1::Tile::SEQ, .statement = leaf ? 0 : -1, .statements = {0}};
  tile.first_loop = around_;
  tile.end_loop = around_ + loops.size();
  BoundNode& inner = at(tree_.nodes, kInner);
  inner = {.parent = kTile, .level = level - 1, .statements = {0}};
  inner.first_loop = inner.end_loop = tile.end_loop;
  if (!leaf) tile.children = {kInner};
  view.leaf = leaf ? kTile : kInner;
  BoundaryBytes bytes;
  double outside = 1;  // instances around the tile
  for (size_t i = 0; i < around_; ++i)
    if (view.loops[i].spatial) outside *= static_cast<double>(view.loops[i].count);
  const double inside = outside * static_cast<double>(instancesOf(loops));
  for (const cost::Boundary& boundary : boundariesOf(tree_)) {
    const double word = at(tree_.word_bytes, boundary.tensor);
    if (boundary.filled) {
      bytes.first_out += boundary.fills.first.distinct * word / outside;
      bytes.first_inner_in += boundary.fills.first.words * word / inside;
    }
    if (boundary.drained) {
      bytes.last_in += boundary.results.first.distinct * word / outside;
      bytes.last_inner_out += boundary.results.first.words * word / inside;
    }
    bytes.out += (boundary.read_words + boundary.partial_words) * word;
    bytes.in += boundary.update_words * word;
    bytes.inner_in += (boundary.filled_words + boundary.partial_words) * word;
    bytes.inner_out += boundary.drained_words * word;
    if (!leaf) bytes.footprint += boundary.words * at(tree_.word_bytes, boundary.tensor);
  }
  for (double* each : {&bytes.out, &bytes.in, &bytes.inner_in, &bytes.inner_out}) *each /= steps_;
  return bytes;
}

std::vector<int64_t> OperatorModel::signatureOf(const Surroundings& surroundings) const {
  const cost::StatementView& view = surroundings.view;
  const Extents& extents = view.extents.back();
  std::vector<int64_t> signature = {surroundings.evicting ? 1 : 0, surroundings.consumed_inside ? 1 : 0};
  for (const int loop : at(nest_.statements, statement_).loops) signature.push_back(at(extents, loop));
  for (const BoundAccess& access : tree_.accesses[0]) {
    signature.push_back(-1);
    const size_t dimensions = access.access->subscripts.size();
    absl::InlinedVector<int64_t, 4> reset(dimensions, 0);
    double inside = 1, weight_per_step = 1;
    for (size_t i = view.loops.size(); i-- > 0;) {
      const BoundLoop& loop = view.loops[i];
      if (loop.spatial || loop.count == 1) continue;
      inside *= static_cast<double>(loop.count);
      weight_per_step = static_cast<double>(loop.count - 1) / inside;
      bool meets = true, moves = false;
      absl::InlinedVector<int64_t, 4> moved;
      for (size_t d = 0; d < dimensions; ++d) {
        const Subscript& subscript = access.access->subscripts[d];
        const int64_t step = distanceOf(subscript, view.advances[i]);
        moved.push_back(step - reset[d]);
        reset[d] += (loop.count - 1) * step;
        moves = moves || step != 0;
        meets = meets && std::abs(moved.back()) < spanOf(subscript, extents);
      }
      const bool shared = i < surroundings.shared;
      if (access.writes && shared && surroundings.consumed_inside) continue;
      // First visits of a result: steps that do not move it repeat them.
      if (access.writes && !moves) signature.insert(signature.end(), {-2, loop.count});
      if (!meets || (shared && surroundings.evicting)) continue;
      signature.insert(signature.end(), moved.begin(), moved.end());
      signature.push_back(std::bit_cast<int64_t>(weight_per_step));
    }
  }
  return signature;
}

}  // namespace tessera::compiler::dataflow_search
