#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/physical_mapping.h"

/// What a mapping costs by the level-by-level model (thesis, equations 5.6 to 5.8), from the target's data alone.
namespace tessera::compiler::intrinsic {

/// A level of the model: where blocks are kept while the level inside of it runs. Level 0 is where the instruction
/// reads (registers, or a buffer for each operand), the last one holds everything.
struct Stage {
  std::string name;
  double in_bandwidth = 0;            ///< bytes a cycle that it is filled with; 0: the last one is not filled
  double out_bandwidth = 0;           ///< bytes a cycle that it is emptied with
  std::vector<std::string> memories;  ///< level 0: per operand; others: one for all
  std::vector<int64_t> capacities;    ///< bytes, of `memories`; -1: unknown
};

/// Levels of `target` for `intrinsic`, innermost first; at least two.
std::vector<Stage> stagesOf(const v1::Intrinsic& intrinsic, const v1::Target& target);

/// Blocks along each dimension that a level holds. Dimensions: the iterations of the instruction (in its steps), then
/// the loops outside of it, as PhysicalMapping::outer has them. The last level's are the extents.
using Tiling = std::vector<std::vector<int64_t>>;

/// Extents of the dimensions.
std::vector<int64_t> dimensionsOf(const Nest& software, const PhysicalMapping& mapping);

struct PricedLevel {
  std::string name;
  double loops = 1;                      ///< prod S_l: repetitions of the level inside, in time
  double cycles = 0;                     ///< L_l
  double in_bytes = 0, out_bytes = 0;    ///< DataIn_l, DataOut_l: of one filling
  double in_cycles = 0, out_cycles = 0;  ///< R_l, W_l
};

struct Price {
  double cycles = 0;  ///< L of the last level (5.6)
  std::vector<PricedLevel> levels;
};

/// L_0 = prod S_0 * the instruction's time: its issue interval where independent results hide its latency, else its
/// latency. L_l = prod S_l * max(L_(l-1), R_(l-1), W_(l-1)), R = DataIn / in_bw and W = DataOut / out_bw (5.8, whose
/// last divisor is the output's bandwidth). Sums run innermost: a result leaves a level once for all of its sum. Units
/// of the target share the last level's loops that are no sums. Nothing where a level is too small for its blocks.
absl::StatusOr<Price> priceOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                              const PhysicalMapping& mapping, const v1::Target& target, const Tiling& tiling);

}  // namespace tessera::compiler::intrinsic
