#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/cost/machine.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/schedule.pb.h"

/// The cost of a dataflow on a chip: TileFlow's analysis (thesis, 3.4.2 and 3.5.1), with closed forms over loops
/// instead of an enumeration of time steps. clients/docs/design/dataflow-analysis.md derives each figure.
///
/// The dataflow is a tile tree over the statements of one nest:
///
///   DRAM [m:Tp/16] Shar
///     stage bypass B
///     L1 [l:Tp/8 k:Tp/8] compute nest 0     C[m, l] += A[m, k] * B[k, l]
///     L1 [l:Tp/8 n:Tp/8] compute nest 1     E[m, n] += C[m, l] * D[l, n]
///
/// A tile's level holds what its loops work on. A tile whose level differs from that of its parent has a buffer for
/// each tensor of its statements, filled from the nearest tile outside of it that holds the tensor.
namespace tessera::compiler::cost {

/// Words (elements) of one tensor at one memory level, over the whole run and all instances of the level.
struct Traffic {
  std::string tensor;
  int word_bytes = 4;
  double read = 0;        ///< sent inwards; a word that several instances receive in one time step counts once
  double fill = 0;        ///< received from outside: operands, and partial sums that are continued
  double update = 0;      ///< received from inside: results and partial sums
  double drain = 0;       ///< sent outwards: results and partial sums
  int64_t footprint = 0;  ///< of one instance, one copy
};

struct LevelCost {
  std::string name;
  int64_t units = 0;      ///< instances in use
  int64_t footprint = 0;  ///< words of one instance, one copy (equation 3.13)
  int64_t footprint_bytes = 0;
  std::vector<Traffic> tensors;
};

struct DataflowCost {
  double cycles = 0;          ///< equation 3.22
  double compute_cycles = 0;  ///< the same without bandwidths
  double energy_pj = 0;
  double operations = 0;
  int64_t units = 0;              ///< compute units in use (equation 3.12)
  std::vector<LevelCost> levels;  ///< innermost first, as in the machine
  /// Limits of the chip that the dataflow exceeds: capacities and numbers of instances and units.
  std::vector<std::string> violations;
};

/// Prices the tree. Fails with INVALID_SCHEDULE naming the path of the tile at fault and what is accepted, and with
/// INVALID_ARGUMENT if the nest is not affine or writes a tensor twice.
absl::StatusOr<DataflowCost> analyzeDataflow(const loopnest::Nest& nest, const v1::Schedule& tree,
                                             const Machine& machine);

}  // namespace tessera::compiler::cost
