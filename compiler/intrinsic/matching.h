#pragma once

#include <vector>

#include "compiler/intrinsic/nest.h"

/// Which software iteration runs in which iteration of an instruction (thesis, 5.3 and 5.4, the virtual step: no
/// sizes).
///
/// Rule of admission. A match point takes one software loop for each iteration of the instruction, so that with all
/// other loops at 0 every access of the operator is, up to the order of its subscripts, the instruction's operand: the
/// same loops in the same subscript, walked forwards (the memory abstraction has no negative strides), and nothing
/// else. A mapping is a union of match points that gives no loop two iterations. So p and r of an image's p + r make
/// no point together, but meet in unions such as {n, p} x {c, r}, where the image becomes a matrix by copying.
///
/// An iteration that no loop of the operator could fill, by the arrays it occurs in, gets a loop of extent 1 (a
/// matrix by a vector is a product with one column); a sum never does: a product without a sum is no matrix product.
namespace tessera::compiler::intrinsic {

/// Instructions of more iterations or sources are not mapped: the search grows with their permutations.
inline constexpr size_t kMostIterations = 8, kMostSources = 4;

struct Matching {
  std::vector<int> iteration;  ///< per software loop: position of the instruction's iteration, -1: runs outside
  std::vector<int> source;     ///< per source of the instruction: position of the operator's source, from 1
  bool operator==(const Matching&) const = default;
  auto operator<=>(const Matching&) const = default;
};

struct MatchOptions {
  bool any_order = false;         ///< sources in every order; mappings that an automorphism of the instruction makes
                                  ///< equal count once. Else in the order in which both are written.
  bool same_types = false;        ///< element types must be the instruction's; else they are converted
  size_t most = size_t{1} << 16;  ///< mappings after which enumeration ends
};

struct Mappings {
  Nest software;  ///< with the loops of extent 1 that stand in, at its end
  std::vector<Matching> matchings;
  size_t points = 0;     ///< match points
  bool complete = true;  ///< false: ended at MatchOptions::most
};

/// Every mapping of `software` onto `instruction` by the rule above; all of them satisfy algorithm 4. Empty where
/// the arithmetic differs or nothing matches. Sorted; equal inputs give equal results.
Mappings enumerateMappings(const Nest& software, const Nest& instruction, const MatchOptions& options = {});

/// `software` with a loop of extent 1 for every iteration that none of its loops could fill, sources in that order.
Nest withStandIns(const Nest& software, const Nest& instruction, const std::vector<int>& source);

/// Position of the operator's array that operand `operand` of the instruction stands for.
inline int arrayOf(const Matching& matching, size_t operand) { return operand == 0 ? 0 : matching.source[operand - 1]; }

}  // namespace tessera::compiler::intrinsic
