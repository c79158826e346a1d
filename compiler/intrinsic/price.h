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
  std::vector<double> widths;         ///< bytes a cycle that `memories` take, and level 0's gives of results with what
                                      ///< they pass on their way that is no level; 0: not described
  /// Per operand: blocks lie there as the instruction takes them, padding included. Else, in what no statement of the
  /// instruction names and where tensors are, elements are the operator's own.
  std::vector<bool> blocks;
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
  double in_bytes = 0, out_bytes = 0;    ///< DataIn_l, DataOut_l: of the level outside, a trip on average
  double in_cycles = 0, out_cycles = 0;  ///< R_l, W_l
};

struct Price {
  double cycles = 0;  ///< L of the last level (5.6)
  std::vector<PricedLevel> levels;
};

/// Prices tilings of one mapping. L_0 = prod S_0 * the instruction's time: its issue interval where independent results
/// hide its latency, else its latency. L_l = prod S_l * max(L_(l-1), R_(l-1), W_(l-1)), R = DataIn / in_bw and W =
/// DataOut / out_bw (5.8, whose last divisor is the output's bandwidth). What is not moved is not counted:
///
/// Padding. Where it is added on the way in, or left behind on the way out, it is no traffic of the outer level. The
/// inner one writes it, or gives it, at its own bandwidth, and a move takes the longer of both.
///
/// What stays. A level's loops are walked in the order of dimensions, sums innermost. A result leaves once for all of
/// its sum. A source's tile stays for the loops inside of the one that moves it; in a cache also for those outside, as
/// far as all that passes meanwhile has room. While it comes from there the outer level rests.
///
/// Units divide the last level's loops that are no sums evenly. The one that has most counts.
class PriceModel {
 public:
  PriceModel(const Nest& software, const v1::Intrinsic& intrinsic, const PhysicalMapping& mapping,
             const v1::Target& target);

  /// FAILED_PRECONDITION where a level is too small for its blocks; INVALID_ARGUMENT for another number of levels.
  absl::StatusOr<Price> of(const Tiling& tiling) const;

  const std::vector<Stage>& stages() const { return stages_; }

 private:
  struct Dimension {
    bool sum = false;
    double filled = 1;  ///< share of its blocks that is no padding
  };
  struct Operand {
    double block_bytes = 0;
    std::vector<bool> walks;  ///< per dimension
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
