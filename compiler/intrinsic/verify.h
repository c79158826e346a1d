#pragma once

#include <string>

#include "compiler/intrinsic/boolean_matrix.h"
#include "compiler/intrinsic/matching.h"

namespace tessera::compiler::intrinsic {

/// The matrices of algorithm 4, on mapped columns only. Rows of X and Z are the arrays in the instruction's order.
struct MappingMatrices {
  BooleanMatrix software;     ///< X: array x mapped loop
  BooleanMatrix mapping;      ///< Y: iteration x mapped loop
  BooleanMatrix instruction;  ///< Z: operand x iteration
};
MappingMatrices matricesOf(const Nest& software, const Nest& instruction, const Matching& matching);

struct Verdict {
  bool correct = false;
  std::string reason;  ///< empty where it is correct: the array and the loop or iteration at fault
};

/// Algorithm 4 (thesis, 5.5): Z * Y = X and X * Y^T = Z in boolean arithmetic. The first says that every operand is
/// walked by the loops that walk its array; the second that every iteration of the instruction is used as described.
/// Where a subscript of the instruction adds iterations (h + r), boolean matrices do not see proportions: there one
/// loop of each moves within a block, and the loops add up in the instruction's proportion.
Verdict verify(const Nest& software, const Nest& instruction, const Matching& matching);

}  // namespace tessera::compiler::intrinsic
