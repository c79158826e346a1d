#pragma once

#include <vector>

#include "compiler/intrinsic/nest.h"

/// Maps software iterations to iterations of an instruction (thesis, 5.3 and 5.4: the virtual step, without sizes).
///
/// Admission rule. A match point selects one software loop for each iteration of the instruction, such that with all
/// other loops at 0 every access of the operator equals, up to the order of its subscripts, the instruction's operand:
/// the same loops in the same subscript, walked forwards (the memory abstraction has no negative strides), and no
/// others. A mapping is a union of match points that gives no loop two iterations. For example, p and r of an image's p
/// + r form no match point together, but they occur together in unions such as {n, p} x {c, r}, where copying turns the
/// image into a matrix.
///
/// An iteration that no loop of the operator can fill, judging by the arrays it occurs in, gets a loop of extent 1 (a
/// matrix-vector product is a matrix product with one column). A reduction never does: a product without a sum is no
/// matrix product.
namespace tessera::compiler::intrinsic {

/// Instructions with more iterations or sources are not mapped, since the search grows with their permutations.
inline constexpr size_t kMostIterations = 8, kMostSources = 4;

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
  Nest software;  ///< with stand-in loops of extent 1 appended
  std::vector<Matching> matchings;
  size_t points = 0;     ///< match points
  bool complete = true;  ///< false: stopped at MatchOptions::most
};

/// All mappings of `software` to `instruction` by the rule above; each satisfies algorithm 4. Empty if the arithmetic
/// differs or nothing matches. Sorted; deterministic.
Mappings enumerateMappings(const Nest& software, const Nest& instruction, const MatchOptions& options = {});

/// `software` with a stand-in loop of extent 1 for every iteration that none of its loops can fill, for sources in this
/// order.
Nest withUnitLoops(const Nest& software, const Nest& instruction, const std::vector<int>& source);

/// Position of the operator's array to which operand `operand` of the instruction corresponds.
inline int arrayOf(const Matching& matching, size_t operand) { return operand == 0 ? 0 : matching.source[operand - 1]; }

}  // namespace tessera::compiler::intrinsic
