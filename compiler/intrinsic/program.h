#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/physical_mapping.h"

/// An operator as a program for a described accelerator: explicit copies between its memories, and instruction calls.
namespace tessera::compiler::intrinsic {

/// A tensor of the operator, or the part of an operand that one memory holds: an array of elements.
struct Buffer {
  std::string memory;  ///< "memory" for tensors
  std::string name;
  int64_t elements = 0;
};

struct Step {
  /// Pairs of source and destination addresses of the moved elements; source address -1 writes padding.
  struct Copy {
    int from = 0, to = 0;  ///< positions in Program::buffers
    std::vector<std::pair<int64_t, int64_t>> moves;
  };
  bool call = false;  ///< an instruction call on the operands' buffers; otherwise a copy
  Copy copy;
};

struct Program {
  std::vector<Buffer> buffers;  ///< the operator's tensors in the order of its accesses, then those of the operands
  std::vector<int> operands;    ///< per operand of the instruction: its buffer, row-major
  std::vector<Step> steps;
  bool complete = true;  ///< false: truncated
};

/// Longest program that is generated, in elements that copies move: 1 GiB of addresses.
inline constexpr int64_t kMaxMoves = 1 << 26;

/// Generates the program of a mapping, whether the mapping is right or wrong: the content of a block is determined by
/// those loops that index the operand according to the mapping, with all other loops at 0. Copies follow the statements
/// of the memory abstraction in order; a block has the layout of each memory. Only the first `most` steps of a long
/// program are generated, plus the steps that they have begun. Fails with RESOURCE_EXHAUSTED if copies would move more
/// than kMaxMoves elements.
absl::StatusOr<Program> programOf(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                                  const PhysicalMapping& mapping, size_t most = SIZE_MAX);

/// The first `most` steps as text.
std::string print(const Program& program, size_t most);

}  // namespace tessera::compiler::intrinsic
