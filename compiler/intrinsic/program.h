#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/physical_mapping.h"

/// An operator as a program for a described accelerator: explicit copies between its memories, and instruction calls.
namespace tessera::compiler::intrinsic {

/// A tensor of the operator, or what one memory holds of one operand: an array of elements.
struct Buffer {
  std::string memory;  ///< "memory" for tensors
  std::string name;
  int64_t elements = 0;
};

struct Step {
  /// Elements moved, from address to address; address -1 brings padding.
  struct Copy {
    int from = 0, to = 0;  ///< positions in Program::buffers
    std::vector<std::pair<int64_t, int64_t>> moves;
  };
  bool call = false;  ///< the instruction, on the operands' buffers; else a copy
  Copy copy;
};

struct Program {
  std::vector<Buffer> buffers;  ///< the operator's tensors in the order of its accesses, then those of the operands
  std::vector<int> operands;    ///< per operand of the instruction: the buffer it works on, row-major
  std::vector<Step> steps;
  bool complete = true;  ///< false: only its beginning
};

/// Longest program that is written out, in elements that copies move: 1 GiB of addresses.
inline constexpr int64_t kMostMoves = 1 << 26;

/// Follows the mapping whether it is right or wrong: what a block holds is decided by the loops that walk the operand
/// in the mapping; all others are at 0 for it. Copies go by the statements of the memory abstraction, one after
/// another, a block in the layout of each memory. Of a long program `most` steps are written, and what they have begun.
/// Fails with RESOURCE_EXHAUSTED where copies would move more than kMostMoves elements.
absl::StatusOr<Program> programOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                                  const PhysicalMapping& mapping, size_t most = SIZE_MAX);

/// Its first `most` steps for a person.
std::string print(const Program& program, size_t most);

}  // namespace tessera::compiler::intrinsic
