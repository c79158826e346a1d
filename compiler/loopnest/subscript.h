#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

/// Subscripts: integer functions of loops, affine with quotients and remainders (quasi-affine).
namespace tessera::compiler::loopnest {

/// coefficient * loop.
struct Term {
  int loop = 0;  ///< position in Nest::loops
  int64_t coefficient = 1;
  bool operator==(const Term&) const = default;
};

/// coefficient * (floor((sum of terms + constant) / divisor) mod modulus): one digit of an index that was cut into
/// parts.
struct Digit {
  std::vector<Term> terms = {};
  int64_t constant = 0;
  int64_t divisor = 1;  ///< at least 1
  int64_t modulus = 0;  ///< at least 1; 0: no remainder is taken
  int64_t coefficient = 1;
  bool operator==(const Digit&) const = default;
};

/// The sum of its terms, its digits and its constant.
struct Subscript {
  std::vector<Term> terms = {};  ///< each loop once, no coefficient 0
  int64_t constant = 0;
  std::vector<Digit> digits = {};

  bool isAffine() const { return digits.empty(); }
  /// The coefficient of `loop` among the terms, 0 without one; digits are left out.
  int64_t coefficientOf(int loop) const;
  /// Whether the loop occurs in a term or in a digit.
  bool uses(int loop) const;
  /// The value at one point, with one index per loop of the nest.
  int64_t at(std::span<const int64_t> point) const;
  bool operator==(const Subscript&) const = default;
};

/// The smallest and the largest value of a subscript.
struct Range {
  int64_t low = 0, high = 0;
};

/// Bounds of the subscript's values, given the extents of the loops. Exact for affine subscripts; a digit contributes
/// the whole range from 0 to modulus - 1 if its dividend crosses a multiple of divisor * modulus.
Range rangeOf(const Subscript& subscript, std::span<const int64_t> extents);

/// Longest accepted text of a subscript, in bytes. Numbers are below 2^31, so that sums of them cannot overflow.
inline constexpr size_t kMaxSubscriptBytes = 256;

/// Parses a sum of numbers, names, products of a number and a name, and digits: "2 * h + r - 1", "(n * 49 + q) / 16 %
/// 4", "3 * (x % 7)". `/` rounds down, and `%` is its remainder. Names consist of letters, digits, '_' and '.' and
/// start with a letter. names[i] is the name of loop i; unknown names are appended to it. Fails with INVALID_ARGUMENT
/// naming the column, the text found and the accepted syntax.
absl::StatusOr<Subscript> parseSubscript(std::string_view text, std::vector<std::string>& names);

/// Parses "LEFT < RIGHT" as left - right, which is negative where the bound holds.
absl::StatusOr<Subscript> parseBound(std::string_view text, std::vector<std::string>& names);

/// "2 * h + r - 1"; "0" for an empty subscript. parseSubscript() reads the result back.
std::string print(const Subscript& subscript, std::span<const std::string> names);

}  // namespace tessera::compiler::loopnest
