#pragma once

#include <vector>

#include "compiler/intrinsic/nest.h"

/// Maps the loops of an operator (software loops) to the iterations of an instruction, without regard to sizes (thesis,
/// 5.3 and 5.4: the virtual step).
///
/// Example. A 2 x 2 x 2 matrix unit computes C[i, j] += A[i, k] * B[k, j]. A convolution computes O[n, f, p, q] +=
/// I[n, c, p + r, q + s] * W[f, c, r, s]. One match point maps n to i, f to j and c to k: with the other loops at 0,
/// the operator computes O[n, f] += I[n, c] * W[f, c], which is the unit's product up to the order of subscripts.
/// Another one maps p to i, f to j and c to k. Their union maps n and p to i, fused into one index.
///
/// Rule. A match point selects one software loop for each iteration of the instruction, such that with all other loops
/// at 0 every access of the operator equals, up to the order of its subscripts, the instruction's operand: the same
/// loops in the same subscript, with positive coefficients (the memory abstraction has no negative strides), and no
/// others. A mapping is a union of match points that gives no loop two iterations. In the example, p and r form no
/// match point together, since I has them in one subscript. Unions such as {n, p} to i and {c, r} to k contain both:
/// copying then turns the image into a matrix.
///
/// An iteration that no loop of the operator can fill, judging by the arrays it occurs in, gets a loop of extent 1 (a
/// matrix-vector product is a matrix product with one column). A reduction never does: a product without a sum is no
/// matrix product.
namespace tessera::compiler::intrinsic {

/// Instructions with more iterations or sources are not mapped, since the search grows with their permutations.
inline constexpr size_t kMaxIterations = 8, kMaxSources = 4;

struct Matching {
  std::vector<int> iteration;  ///< per software loop: position of the instruction's iteration; -1: runs outside
  std::vector<int> source;     ///< per source of the instruction: position of the operator's source, counted from 1
  bool operator==(const Matching&) const = default;
  auto operator<=>(const Matching&) const = default;
};

struct MatchOptions {
  /// tries the sources in every order; mappings that are equal up to an automorphism of the instruction count once.
  /// Otherwise sources keep the order in which both are written.
  bool any_order = false;
  bool same_types = false;        ///< element types must equal the instruction's; otherwise they are converted
  size_t most = size_t{1} << 16;  ///< bound on the number of mappings
};

struct Mappings {
  Nest software;  ///< with loops of extent 1 appended (withUnitLoops)
  std::vector<Matching> matchings;
  size_t points = 0;     ///< match points
  bool complete = true;  ///< false: stopped at MatchOptions::most
};

/// All mappings of `software` to `instruction` by the rule above; each satisfies algorithm 4. Empty if the arithmetic
/// differs or nothing matches. Sorted; deterministic.
Mappings enumerateMappings(const Nest& software, const Nest& instruction, const MatchOptions& options = {});

/// `software` with an additional loop of extent 1 for every iteration of the instruction that none of its loops can
/// fill. `source`: as in Matching.
Nest withUnitLoops(const Nest& software, const Nest& instruction, const std::vector<int>& source);

/// Position of the operator's array to which operand `operand` of the instruction corresponds.
inline int arrayOf(const Matching& matching, size_t operand) { return operand == 0 ? 0 : matching.source[operand - 1]; }

}  // namespace tessera::compiler::intrinsic
