#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/matching.h"
#include "compiler/target/stride.h"

/// The second step of a mapping (thesis, 5.4): what a matching means for an instruction of a fixed size whose operands
/// have their places and addresses.
namespace tessera::compiler::intrinsic {

/// The loops that share an iteration of the instruction, as one index cut into steps of the instruction's size:
/// iteration = index mod size, step = index div size.
struct Group {
  std::vector<int> loops;  ///< of the software, slowest first; none: the iteration idles at 0
  int64_t extent = 1;      ///< product of theirs
  int64_t size = 1;        ///< the instruction's extent
  int64_t steps = 1;       ///< extent / size, rounded up
  int64_t padding() const { return extent % size == 0 ? 0 : size - extent % size; }
};

/// Where the blocks of an operand (what one instruction takes) are, and how a block lies.
struct Placement {
  std::string memory;  ///< where the operand is while the instruction runs
  int64_t block_elements = 1;
  int64_t block_bytes = 1;
  std::vector<int> outer;        ///< software loops outside of the instruction that its array is walked by
  std::vector<int> order;        ///< iterations that cut it into blocks, slowest first
  std::vector<Stride> strides;   ///< of its subscripts within a block, in the memory it is loaded from
  int64_t blocks = 1;            ///< in all: product of the steps and of the outer loops
  int64_t blocks_that_fit = -1;  ///< in `memory` of the target; -1: its size is not known
  std::string base;              ///< address of a block in elements, as an expression in the software's loops
};

struct PhysicalMapping {
  std::vector<Group> groups;        ///< one for each iteration of the instruction
  std::vector<int> outer;           ///< software loops that run outside
  std::vector<Placement> operands;  ///< destination first
  int64_t calls = 1;
  double utilization = 1;  ///< points of the operator in those of all calls: what padding leaves
  bool ragged() const;
};

/// The statement that brings an operand to where the instruction reads it (or takes a result from there).
const v1::Intrinsic::Transfer* nearestTransfer(const v1::Intrinsic& intrinsic, const v1::Intrinsic::Operand& operand);

/// Fails with FAILED_PRECONDITION where the instruction cannot run so: a block is larger than its memory, or sums take
/// more than one call of an instruction that drops what its destination held. `target` gives the memories.
absl::StatusOr<PhysicalMapping> physicalMapping(const Nest& software, const v1::Intrinsic& intrinsic,
                                                const Matching& matching, const v1::Target& target);

/// The loops of an iteration as one index: "n * 112 + q"; "0" for none.
std::string indexText(const Nest& software, const Group& group);

/// "[i, j, r] <- [(n * 112 + q) % 16, k % 16, (c * 49 + r * 7 + s) % 16]", as in table 5.4.
std::string mappingText(const Nest& software, const Nest& instruction, const Matching& matching);

}  // namespace tessera::compiler::intrinsic
