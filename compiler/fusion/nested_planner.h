#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/fusion/block_planner.h"

/// Blocks within blocks, for several memories at once (Chimera, equations 3.20 and 3.21). In the blocks of the farthest
/// memory the members of a chain run one after another. In nearer memories each member has blocks of its own, and
/// intermediates are read and written like any operand.
namespace tessera::compiler::fusion {

/// A memory that blocks must fit into.
struct BlockMemory {
  double capacity_bytes = 0;
  double bytes_per_second = 0;  ///< from the next farther one: bw of equation 3.20
};

/// Blocks of one memory, in terms of the loops of a chain.
struct LevelBlocks {
  Order order;  ///< loops that iterate over blocks of this level, outermost first
  Tiles tiles;  ///< per loop; those of the enclosing level if it is not cut here
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
  std::vector<double> seconds;        ///< per memory, farthest first: the cost of equation 3.20
  double slowest = 0;                 ///< the greatest of them, which equation 3.21 minimizes
  double bound = 0;                   ///< lower bound of any plan: the greatest of each memory's minimum with blocks
                                      ///< for it alone
};

/// Returns orders and blocks for `memories`, farthest first. The farthest memory has the blocks of planBlocks(); each
/// other one the best blocks within the enclosing ones. While a nearer memory is the slowest, the farthest one's blocks
/// are changed as long as that gains. Errors: those of planBlocks(); INVALID_ARGUMENT without a memory, or if a window
/// slides over an intermediate.
absl::StatusOr<NestedPlan> planNested(const Chain& chain, absl::Span<const BlockMemory> memories,
                                      const BlockOptions& options = {});

/// Like planNested() with given blocks in the farthest memory.
absl::StatusOr<NestedPlan> planWithin(const Chain& chain, absl::Span<const BlockMemory> memories, const Order& order,
                                      const Tiles& tiles, const BlockOptions& options = {});

/// One loop of a nest: iterates in steps of a block, within the enclosing loops.
struct LoopStep {
  int loop = 0;
  int64_t tile = 1;
};

/// Returns the data moved into a cache while a chain of one member runs the loops `steps`, outermost first: algorithm 1
/// for the largest block that fits, which consists of the innermost loops that fit, each taken whole. Uses the
/// innermost blocks if not even they fit.
Movement movementInto(const Chain& chain, absl::Span<const LoopStep> steps, double capacity_bytes);

/// Returns the loops of levels, farthest first.
std::vector<LoopStep> stepsOf(absl::Span<const LevelBlocks> levels);

}  // namespace tessera::compiler::fusion
