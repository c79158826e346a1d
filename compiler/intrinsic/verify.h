#pragma once

#include <string>

#include "compiler/intrinsic/boolean_matrix.h"
#include "compiler/intrinsic/matching.h"

namespace tessera::compiler::intrinsic {

/// The matrices of algorithm 4, restricted to mapped columns. Rows of X and Z are the arrays in the instruction's
/// order.
struct MappingMatrices {
  BooleanMatrix software;     ///< X: array x mapped loop
  BooleanMatrix mapping;      ///< Y: iteration x mapped loop
  BooleanMatrix instruction;  ///< Z: operand x iteration
};
MappingMatrices matricesOf(const Nest& software, const Nest& instruction, const Matching& matching);

struct Verdict {
  bool correct = false;
  std::string reason;  ///< empty if correct: the array and the loop or iteration at fault
};

/// Algorithm 4 (thesis, 5.5): Z * Y = X and X * Y^T = Z in boolean arithmetic. The first equation says that every
/// operand is indexed by exactly the loops that index its array; the second that every iteration of the instruction is
/// used as described. Boolean matrices do not capture coefficients, so for a subscript of the instruction that adds
/// iterations (h + r) there is a further condition: one loop of each iteration moves within a block, and these loops
/// have coefficients in the instruction's proportion.
Verdict verify(const Nest& software, const Nest& instruction, const Matching& matching);

}  // namespace tessera::compiler::intrinsic
