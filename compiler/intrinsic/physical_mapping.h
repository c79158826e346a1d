#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/matching.h"
#include "compiler/target/stride.h"

/// The second step of a mapping (thesis, 5.4): a matching for an instruction of fixed size, with memories and addresses
/// of its operands.
namespace tessera::compiler::intrinsic {

/// The loops mapped to one iteration of the instruction, as one index that is cut into steps of the instruction's size:
/// iteration = index mod size, step = index div size.
struct Group {
  std::vector<int> loops;  ///< software loops, slowest first; empty: the iteration stays at 0
  int64_t extent = 1;      ///< product of their extents
  int64_t size = 1;        ///< the instruction's extent
  int64_t steps = 1;       ///< extent / size, rounded up
  int64_t padding() const { return extent % size == 0 ? 0 : size - extent % size; }
};

/// Location and layout of an operand's blocks. Here a block is the part of an operand that one call of the instruction
/// reads or writes, not a block of a tile tree.
struct Placement {
  std::string memory;  ///< location of the operand while the instruction runs
  int64_t block_elements = 1;
  int64_t block_bytes = 1;
  std::vector<int> outer;        ///< software loops outside of the instruction that index the operand's array
  std::vector<int> order;        ///< iterations of the instruction whose steps number the blocks, slowest first
  std::vector<Stride> strides;   ///< of its subscripts within a block, in the memory from which it is loaded
  int64_t blocks = 1;            ///< total: product of the steps and of the outer loops' extents
  int64_t blocks_that_fit = -1;  ///< in `memory` of the target; -1: unknown size
  std::string base;              ///< address of a block in elements, as an expression in the software's loops
};

struct PhysicalMapping {
  std::vector<Group> groups;        ///< one for each iteration of the instruction
  std::vector<int> outer;           ///< software loops outside of the instruction
  std::vector<Placement> operands;  ///< destination first
  int64_t calls = 1;
  double utilization = 1;  ///< points of the operator divided by points of all calls; below 1 because of padding
  bool ragged() const;
};

/// The statement that moves an operand to the memory from which the instruction reads (or a result out of it).
const v1::Intrinsic::Transfer* nearestTransfer(const v1::Intrinsic& intrinsic, const v1::Intrinsic::Operand& operand);

/// Fails with FAILED_PRECONDITION if the instruction cannot run in this way: a block is larger than its memory, or sums
/// take several calls of an instruction that does not accumulate. `target` supplies the memories.
absl::StatusOr<PhysicalMapping> physicalMapping(const Nest& software, const v1::Intrinsic& intrinsic,
                                                const Matching& matching, const v1::Target& target);

/// The loops of an iteration as one index: "n * 112 + q"; "0" without loops.
std::string indexText(const Nest& software, const Group& group);

/// "[i, j, r] <- [(n * 112 + q) % 16, k % 16, (c * 49 + r * 7 + s) % 16]", as in table 5.4.
std::string mappingText(const Nest& software, const Nest& instruction, const Matching& matching);

}  // namespace tessera::compiler::intrinsic
