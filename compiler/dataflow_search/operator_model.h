#pragma once

#include <cstdint>
#include <vector>

#include "compiler/cost/bound_tree.h"
#include "compiler/dataflow_search/tile_space.h"

/// One operator's movement over one boundary, by the analysis of compiler/cost. The tiles around the operator matter
/// only through its surroundings, so that results for equal surroundings are computed once.
namespace tessera::compiler::dataflow_search {

/// The loops around one operator.
struct Surroundings {
  cost::StatementView view;      ///< as bindTree() leaves it, with the loops of the operator's own outer tiles
  size_t shared = 0;             ///< loops that it shares with other operators; its own outer tiles have the others
  bool evicting = false;         ///< a step of a shared loop empties the operator's buffers: a sibling follows by Seq
  bool consumed_inside = false;  ///< all readers of its result are in the same step of the shared loops
};

/// Bytes over the boundary below a tile, in one step of the loops around the operator and one of their instances.
struct BoundaryBytes {
  double out = 0, in = 0;              ///< ports of the tile's level
  double inner_out = 0, inner_in = 0;  ///< ports of the level inside, all instances together
  int64_t footprint = 0;               ///< of the level inside, one instance
  /// Of one instance each: the first slices from the tile's level to the level inside, and the last results back.
  double first_out = 0, first_inner_in = 0, last_in = 0, last_inner_out = 0;
};

class OperatorModel {
 public:
  OperatorModel(const loopnest::Nest& nest, int statement);

  void surround(const Surroundings& surroundings);
  /// The tile at `level` has `loops`; it is a leaf if `level` is 0. Otherwise its buffers are one level further
  /// inwards.
  BoundaryBytes measure(int level, const TileLoops& loops);

  /// Equal vectors: measure() returns equal results, whatever is around. A step of the surroundings brings the
  /// operator's region of a tensor to other elements, or to a part of the same ones; only how often it moves how far
  /// in the latter case matters.
  std::vector<int64_t> signatureOf(const Surroundings& surroundings) const;

 private:
  const loopnest::Nest& nest_;
  int statement_;
  cost::BoundTree tree_;
  size_t around_ = 0;  ///< loops of the surroundings
  double steps_ = 1;   ///< of the surroundings, times their instances
};

}  // namespace tessera::compiler::dataflow_search
