#pragma once

#include <string>
#include <vector>

#include "compiler/intrinsic/physical_mapping.h"

/// How operands have to lie for an instruction, and what is padded: computed from its memory abstraction, so that a
/// fractal layout (3.2.1) is no case of its own.
namespace tessera::compiler::intrinsic {

/// An array of blocks, each of which one instruction takes whole.
struct OperandLayout {
  std::string operand;
  std::string array;     ///< the operator's
  std::string memory;    ///< from which blocks are loaded, or to which they are stored
  bool blocked = false;  ///< false: rows of any length, the instruction steps from one to the next
  std::string fractal;   ///< of two subscripts: order within a block (z rows, n columns), then of blocks (Z, N;
                         ///< none where that is free): "zZ", "nZ", "zN"
  std::vector<std::string> names;  ///< of its dimensions, slowest first: "i / 16", "r / 16", "i % 16", "r % 16"
  std::vector<int64_t> extents;    ///< padding included
  int64_t alignment_bytes = 0;
};

/// One per operand, destination first. Loops outside of the instruction come before all dimensions and are left out.
std::vector<OperandLayout> layoutsOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                                     const PhysicalMapping& mapping);

/// Whether the ragged end of an iteration is filled up with zeros (3.3.1).
struct PaddingDecision {
  std::string iteration;
  int64_t extent = 0, padded = 0;             ///< equal: it has no tail
  bool pad = false;                           ///< else other units compute the tail
  bool on_the_way = false;                    ///< the loads pad: no byte more is moved in the outer memory
  double padded_cycles = 0, tail_cycles = 0;  ///< of the last step; tail_cycles 0: no other unit is there
};

/// One per iteration of the instruction that loops are mapped to. A tail is padded where one more step of the
/// instruction takes no longer than the target's other units take for it, and where there are none.
std::vector<PaddingDecision> paddingOf(const Nest& software, const v1::Intrinsic& intrinsic,
                                       const PhysicalMapping& mapping, const v1::Target& target);

std::string print(const std::vector<OperandLayout>& layouts);
std::string print(const std::vector<PaddingDecision>& decisions);

}  // namespace tessera::compiler::intrinsic
