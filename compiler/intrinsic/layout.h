#pragma once

#include <string>
#include <vector>

#include "compiler/intrinsic/physical_mapping.h"

/// The layouts that an instruction needs for its operands, and the padding. Computed from the instruction's memory
/// abstraction, so that fractal layouts (3.2.1) need no special case.
namespace tessera::compiler::intrinsic {

/// An array of blocks, each of which is loaded or stored as a whole by one instruction.
struct OperandLayout {
  std::string operand;
  std::string array;   ///< name of the operator's array
  std::string memory;  ///< the memory from which blocks are loaded, or to which they are stored
  /// false: the array keeps its own layout, since the instruction loads rows at any distance (a free stride)
  bool blocked = false;
  /// For two subscripts, the names of Ascend chips: "zZ", "nZ", "zN". The first letter is the order of the elements
  /// within a block, the second that of the blocks; Z is row-major, N column-major. The second letter is absent if the
  /// instruction does not fix the order of the blocks.
  std::string fractal;
  std::vector<std::string> names;  ///< of its dimensions, slowest first: "i / 16", "r / 16", "i % 16", "r % 16"
  std::vector<int64_t> extents;    ///< including padding
  int64_t alignment_bytes = 0;
};

/// One layout per operand, destination first. Loops outside of the instruction precede all dimensions and are omitted.
std::vector<OperandLayout> layoutsOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                                     const PhysicalMapping& mapping);

/// Whether the tail of an iteration is padded with zeros (3.3.1).
struct PaddingDecision {
  std::string iteration;
  int64_t extent = 0, padded = 0;  ///< equal: there is no tail
  bool pad = false;                ///< otherwise other units compute the tail
  /// the loads add the padding, so it takes no space in the outer memory; otherwise it is stored when data is packed
  bool on_the_way = false;
  double padded_cycles = 0, tail_cycles = 0;  ///< of the last step; tail_cycles 0: there is no other unit
};

/// One decision per iteration of the instruction to which loops are mapped. A tail is padded if one more step of the
/// instruction takes no longer than the target's other units would take for the tail, or if there are no other units.
std::vector<PaddingDecision> paddingOf(const Nest& software, const v1::Intrinsic& intrinsic,
                                       const PhysicalMapping& mapping, const v1::Target& target);

std::string print(const std::vector<OperandLayout>& layouts);
std::string print(const std::vector<PaddingDecision>& decisions);

}  // namespace tessera::compiler::intrinsic
