#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "compiler/cost/machine.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/schedule.pb.h"

/// A tile tree bound to a nest and a machine: names are positions, loops have counts, and each statement has its own
/// view of the loops around it.
namespace tessera::compiler::cost {

struct BoundLoop {
  int loop = 0;         ///< position in Nest::loops
  int64_t step = 1;     ///< iterations of `loop` per iteration of this one
  int64_t count = 1;    ///< iterations, the last one may be partial
  bool is_even = true;  ///< the first iterations of the loops outside leave a multiple of `step`
  bool spatial = false;
  int unit = -1;  ///< of a spatial loop
  int node = 0;   ///< the tile that has it
};

/// One access of a tensor by a statement.
struct BoundAccess {
  int tensor = 0;
  bool writes = false;
  const loopnest::Access* access = nullptr;
};

/// A tile. Node 0 is the outermost memory with the phases as its children.
struct BoundNode {
  int parent = -1;
  int level = 0;  ///< position in Machine::memories
  v1::Tile::Join join = v1::Tile::SEQ;
  std::vector<int> children = {};
  int statement = -1;                   ///< of a leaf
  int unit = 0;                         ///< of a leaf: what computes
  std::vector<int> bypassed = {};       ///< tensors without a buffer here
  std::vector<int> statements = {};     ///< in the subtree, in the order of execution
  size_t first_loop = 0, end_loop = 0;  ///< its own loops, as positions in a statement's list of loops
  std::string path = {};                ///< "0.1": child 1 of phase 0; empty for node 0

  bool isLeaf() const { return statement >= 0; }
  bool bypasses(int tensor) const;
};

/// Loop `own` of a producer covers what its consumers read of dimension `dimension` of its result.
struct Followed {
  size_t own = 0, dimension = 0;
};

/// The loops around a statement, outermost first, and what they do to it.
struct StatementView {
  int leaf = 0;                       ///< node
  absl::InlinedVector<bool, 8> runs;  ///< whether the statement has the loop of the nest
  std::vector<BoundLoop> loops;
  size_t even_loops = 0;  ///< no step of so many outer loops is partial
  /// advances[i][l]: how far one step of loops[i] moves the statement along loop l of the nest. A loop that the
  /// statement does not have moves a producer as far as it moves what the consumer reads.
  std::vector<absl::InlinedVector<int64_t, 8>> advances;
  /// extents[i][l]: iterations of loop l that remain inside of the first i loops, in their first iterations. The last
  /// iteration of a loop leaves fewer if its step does not divide what it meets: step_extents.h.
  std::vector<absl::InlinedVector<int64_t, 8>> extents;
  /// follows[i]: for a loop that the statement does not have.
  std::vector<absl::InlinedVector<Followed, 2>> follows;
};

struct BoundTree {
  std::vector<BoundNode> nodes;           ///< parents before their children
  std::vector<StatementView> statements;  ///< as in the nest
  std::vector<std::string> tensors;
  std::vector<int> word_bytes;                                ///< of each tensor
  std::vector<absl::InlinedVector<BoundAccess, 4>> accesses;  ///< of each statement
  std::vector<int> writer;                                    ///< statement that writes the tensor, -1: an input
  std::vector<absl::InlinedVector<int, 4>> readers;           ///< statements that read the tensor
  bool is_even = true;                                        ///< every step divides the iterations that it meets
  bool has_follower = false;                                  ///< a view has an entry in `follows`
  /// Loops of the nest whose iterations in a step depend on each other have one number: a producer follows consumers.
  absl::InlinedVector<int, 8> linked;

  bool isIntermediate(int tensor) const;
  /// Whether `outer` is `node` or contains it.
  bool contains(int outer, int node) const;
  int commonAncestor(int left, int right) const;
  /// The innermost tile that contains every statement that accesses the intermediate.
  int scopeOf(int tensor) const;
  /// The nearest tile from `node` outwards, `node` included, that has a buffer for the tensor.
  int holderOf(int node, int tensor) const;
  /// Whether the tile itself has a buffer for the tensor: its level differs from that of its parent.
  bool hasBuffer(int node, int tensor) const;
};

/// Checks the tree and binds it. Errors as analyzeDataflow(). The nest outlives the result.
absl::StatusOr<BoundTree> bindTree(const loopnest::Nest& nest, const v1::Schedule& tree, const Machine& machine);

}  // namespace tessera::compiler::cost
