#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/physical_mapping.h"

/// The predicted time of a mapping by the level-by-level model (thesis, equations 5.6 to 5.8), from the target's data
/// alone.
namespace tessera::compiler::intrinsic {

/// A level of the cost model: holds blocks while the next inner level runs. Level 0 is where the instruction reads
/// (registers, or a buffer for each operand); the last level holds everything.
struct Stage {
  std::string name;
  /// bytes per cycle at which it is filled; 0 for the last level, which is not filled
  double in_bandwidth = 0;
  double out_bandwidth = 0;           ///< bytes per cycle at which it is emptied
  std::vector<std::string> memories;  ///< level 0: one per operand; other levels: one for all
  std::vector<int64_t> capacities;    ///< bytes, per entry of `memories`; -1: unknown
  /// Bytes per cycle, per entry of `memories`: the rate at which operands are written there. For the result at level 0,
  /// the rate at which it is read out. If the result leaves through memories that are no level of the model
  /// (MemoryLevel.peer_of_inner), the least of their rates counts, too. 0: not described.
  std::vector<double> widths;
  /// Per operand: whether blocks have the instruction's layout here, including padding. Otherwise (in memories that no
  /// statement names, and where the tensors are) elements are in the operator's layout.
  std::vector<bool> blocks;
};

/// Levels of `target` for `intrinsic`, innermost first; at least two.
std::vector<Stage> costLevelsOf(const v1::Intrinsic& intrinsic, const v1::Target& target);

/// Blocks along each dimension that a level holds. Dimensions are the iterations of the instruction (in steps), then
/// the loops outside of it in the order of PhysicalMapping::outer. The last level's entries are the extents.
using Tiling = std::vector<std::vector<int64_t>>;

/// Numbers of iterations of the dimensions of a Tiling, in their order.
std::vector<int64_t> dimensionsOf(const Nest& software, const PhysicalMapping& mapping);

struct LevelCost {
  std::string name;
  double loops = 1;   ///< prod S_l: number of times that the next inner level runs, in sequence
  double cycles = 0;  ///< L_l
  /// DataIn_l, DataOut_l: bytes exchanged with the next outer level, on average per trip
  double in_bytes = 0, out_bytes = 0;
  double in_cycles = 0, out_cycles = 0;  ///< R_l, W_l
};

/// A predicted time.
struct Price {
  double cycles = 0;  ///< L of the last level (equation 5.6)
  std::vector<LevelCost> levels;
};

/// Predicts the time of tilings of one mapping, level by level (equations 5.6 to 5.8):
///   L_0 = prod S_0 * max(issue interval, latency / independent results of the level's tile)
///   L_l = prod S_l * max(L_(l-1), R_(l-1), W_(l-1))
///   R = DataIn / in_bandwidth, W = DataOut / out_bandwidth
/// (In equation 5.8 the divisor of W should be the output's bandwidth, as here.)
///
/// DataIn and DataOut count only data that is moved:
///
/// Padding. Padding that is added on the way in, or dropped on the way out, is no traffic of the outer level. The inner
/// level writes or reads it at its own bandwidth, and a move takes the longer of the two times.
///
/// Reuse. The loops of a level run in the order of dimensions, parallel loops outside of reductions. A result leaves a
/// level once its sum is complete. A source's tile is reused by all loops nested inside the innermost loop that changes
/// it. In a cache it is also reused when an outer loop returns to it, if the data accessed in between fits. While a
/// tile is reused, nothing is moved from the outer level.
///
/// Units divide the parallel loops of the last level evenly; the busiest unit determines the time.
class MappingCostModel {
 public:
  MappingCostModel(const Nest& software, const v1::Intrinsic& intrinsic, const PhysicalMapping& mapping,
                   const v1::Target& target);

  /// Errors: FAILED_PRECONDITION if a level is too small for its blocks; INVALID_ARGUMENT for a wrong number of levels.
  absl::StatusOr<Price> of(const Tiling& tiling) const;

  const std::vector<Stage>& stages() const { return stages_; }

 private:
  struct Dimension {
    bool sum = false;
    double filled = 1;  ///< share of its blocks that is not padding
  };
  struct Operand {
    double block_bytes = 0;
    std::vector<bool> walks;  ///< per dimension: whether it moves the operand's blocks
  };
  struct Loop;
  class Nesting;

  double bytesOf(size_t operand, const std::vector<int64_t>& tile, const std::vector<double>& filled) const;
  struct Stay;
  Stay stayOf(size_t operand, size_t level, const Nesting& nesting, std::vector<double> tiles) const;

  std::string chip_;
  std::vector<Stage> stages_;
  std::vector<Dimension> dimensions_;
  std::vector<Operand> operands_;
  double interval_ = 0, latency_ = 0;
  int64_t units_ = 1;
};

}  // namespace tessera::compiler::intrinsic
