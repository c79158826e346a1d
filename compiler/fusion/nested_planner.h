#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/fusion/block_planner.h"

/// Blocks within blocks, for several memories at once (Chimera, equations 3.20 and 3.21). In the blocks of the farthest
/// memory the members of a chain run one after another; in nearer ones each goes round in blocks of its own, and what
/// lies between two members is read and written like any operand.
namespace tessera::compiler::fusion {

/// A memory that blocks are to fit in.
struct BlockMemory {
  double capacity_bytes = 0;
  double bytes_per_second = 0;  ///< from the next farther one: bw of equation 3.20
};

/// Blocks of one memory, in terms of the loops of a chain.
struct LevelBlocks {
  Order order;  ///< loops that go round in blocks of this level, outermost first
  Tiles tiles;  ///< per loop; those of the level outside where it is not cut here
  Movement movement;
};

/// One member within the blocks of the farthest memory.
struct NestedMember {
  Chain chain;                      ///< the member alone
  std::vector<LevelBlocks> levels;  ///< of the nearer memories, farthest first
};

struct NestedPlan {
  LevelBlocks far;                    ///< of the whole chain
  std::vector<NestedMember> members;  ///< in the chain's order
  std::vector<double> seconds;        ///< per memory, farthest first: Cost of equation 3.20
  double slowest = 0;                 ///< the greatest of them, which equation 3.21 minimizes
  double bound = 0;                   ///< no plan has less: each memory's least, with blocks for it alone
};

/// Orders and blocks for `memories`, farthest first. The farthest one's are planBlocks', each other one's the best
/// within those outside of them; where a nearer memory is the slowest, the farthest one's blocks change as long as that
/// gains. Errors: those of planBlocks; INVALID_ARGUMENT without a memory, and where a window slides over what lies
/// between two members.
absl::StatusOr<NestedPlan> planNested(const Chain& chain, absl::Span<const BlockMemory> memories,
                                      const BlockOptions& options = {});

/// The same with these blocks in the farthest memory.
absl::StatusOr<NestedPlan> planWithin(const Chain& chain, absl::Span<const BlockMemory> memories, const Order& order,
                                      const Tiles& tiles, const BlockOptions& options = {});

/// One loop of a nest: in steps of a block, within those outside of it.
struct LoopStep {
  int loop = 0;
  int64_t tile = 1;
};

/// What moves into a cache while a chain of one member goes round in `steps`, outermost first: algorithm 1 for the
/// largest of its blocks that fit, which are those of the innermost loops that do, each taken whole. Of the innermost
/// blocks where not even they do.
Movement movementInto(const Chain& chain, absl::Span<const LoopStep> steps, double capacity_bytes);

/// The loops of levels, farthest first.
std::vector<LoopStep> stepsOf(absl::Span<const LevelBlocks> levels);

}  // namespace tessera::compiler::fusion
