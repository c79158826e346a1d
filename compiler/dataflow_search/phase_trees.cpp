// Trees of phases: shared tiles, and the operators' own tiles inside of them.
#include "compiler/cost/bound_tree.h"
#include "compiler/dataflow_search/phase_space.h"

namespace tessera::compiler::dataflow_search {

void PhaseSpace::addLoops(v1::Tile& tile, const TileLoops& loops) const {
  for (const TileLoop& loop : loops) {
    v1::Loop* added = tile.add_loops();
    added->set_dimension(at(nest_.loops, loop.loop).name);
    added->set_step(loop.step);
    if (loop.spatial) added->set_unit(machine_.units[0].name);
  }
}

v1::Tile PhaseSpace::shellOf(const SharedTiles& shared, int first_nest) const {
  v1::Tile outermost;
  v1::Tile* tile = &outermost;
  int level = static_cast<int>(machine_.memories.size()) - 1;
  for (size_t i = 0; i < shared.tiles.size(); ++i, --level) {
    if (i > 0) tile = tile->add_children();
    tile->set_level(at(machine_.memories, level).name);
    addLoops(*tile, shared.tiles[i]);
    tile->set_join(v1::Tile::SEQ);
    tile->set_deferred_softmax(shared.running);
  }
  if (shared.end - shared.begin > 1) tile->set_join(shared.join);
  for (int s = shared.begin; s < shared.end; ++s) {
    v1::Tile* leaf = tile->add_children();
    leaf->set_level(at(machine_.memories, level).name);
    leaf->mutable_kernel()->set_variant("compute");
    leaf->mutable_kernel()->set_nest(s - first_nest);
  }
  return outermost;
}

v1::Tile PhaseSpace::tree(const SharedTiles& shared, const std::vector<const Partial*>& operators) const {
  std::vector<OperatorTiles> tiles;
  for (const Partial* partial : operators) {
    OperatorTiles& own = tiles.emplace_back();
    for (; partial->inside != nullptr; partial = &(*partial->inside)[partial->choice])
      own.tiles.push_back(partial->loops);
    own.tiles.push_back(partial->loops);
    own.unit = partial->unit;
  }
  return tree(shared, tiles);
}

v1::Tile PhaseSpace::tree(const SharedTiles& shared, const std::vector<OperatorTiles>& operators) const {
  v1::Tile outermost = shellOf(shared, 0);
  v1::Tile* joining = &outermost;
  for (size_t i = 1; i < shared.tiles.size(); ++i) joining = joining->mutable_children(0);
  const auto first_level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size());
  for (size_t i = 0; i < operators.size(); ++i) {
    v1::Tile* tile = joining->mutable_children(static_cast<int>(i));
    const v1::Kernel kernel = tile->kernel();
    tile->clear_kernel();
    int level = first_level;
    for (const TileLoops& loops : operators[i].tiles) {
      if (level < first_level) {
        tile->set_join(v1::Tile::SEQ);
        tile = tile->add_children();
      }
      tile->set_level(at(machine_.memories, level--).name);
      addLoops(*tile, loops);
    }
    *tile->mutable_kernel() = kernel;
    if (operators[i].unit > 0) tile->mutable_kernel()->set_instruction(at(machine_.units, operators[i].unit).name);
  }
  return outermost;
}

std::vector<Extents> PhaseSpace::extentsInside(const SharedTiles& shared) const {
  v1::Schedule schedule;
  *schedule.add_phases() = shellOf(shared, shared.begin);
  const auto bound = bindTree(partOf(shared.begin, shared.end).nest, schedule, machine_);
  std::vector<Extents> extents;
  if (bound.ok())
    for (const cost::StatementView& view : bound->statements) extents.push_back(view.extents.back());
  return extents;
}

}  // namespace tessera::compiler::dataflow_search
