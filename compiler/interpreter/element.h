#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "mlir/IR/Types.h"

namespace tessera::compiler::interpreter {

/// An element type independent of any MLIR context. i1 is 0 or 1; other integers are sign-extended; an index has 64
/// bits.
struct Element {
  enum class Kind : uint8_t { kInteger, kF16, kBF16, kF32, kF64 };
  Kind kind = Kind::kF32;
  unsigned bits = 32;

  bool isReal() const { return kind != Kind::kInteger; }
  bool operator==(const Element&) const = default;
};

/// Whether the interpreter supports elements of this MLIR type; elementOf() converts it.
bool isElement(mlir::Type type);
Element elementOf(mlir::Type type);

/// Parameters of an IEEE 754 format: `precision` significant bits, smallest normal number 2^min_exponent.
struct Format {
  int precision;
  int min_exponent;
  double largest;

  double unitRoundoff() const { return std::ldexp(1.0, -precision); }
  double smallestNormal() const { return std::ldexp(1.0, min_exponent); }
  double smallest() const { return std::ldexp(1.0, min_exponent - precision + 1); }
};
const Format& formatOf(Element element);

/// Rounds from double precision directly to the nearest value of the type, ties to even. Not for integers.
inline double roundTo(Element element, double x) {
  if (element.kind == Element::Kind::kF32) return static_cast<double>(static_cast<float>(x));
  if (element.kind == Element::Kind::kF64 || !std::isfinite(x)) return x;
  const Format& format = formatOf(element);
  const int exponent = static_cast<int>((std::bit_cast<uint64_t>(x) >> 52) & 0x7ff) - 1023;
  const double quantum = std::ldexp(1.0, std::max(exponent, format.min_exponent) - format.precision + 1);
  const double rounded = std::nearbyint(x / quantum) * quantum;  // scaling by a power of two is exact
  if (std::fabs(rounded) > format.largest) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return rounded;
}

/// Wraps to `bits` bits in two's complement and sign-extends (i1 gives 0 or 1).
inline int64_t wrapTo(unsigned bits, int64_t value) {
  if (bits >= 64) return value;
  const uint64_t low = static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
  if (bits == 1 || (low >> (bits - 1)) == 0) return static_cast<int64_t>(low);
  return static_cast<int64_t>(low | ~((uint64_t{1} << bits) - 1));
}
inline uint64_t zeroExtended(unsigned bits, int64_t value) {
  return bits >= 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
}

/// The running error estimate carried with every element: approximately one standard deviation of the distance between
/// the carried value and a correct result (Higham, Accuracy and Stability of Numerical Algorithms, 3.3: running error
/// analysis; sums as in Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019: the rounding errors of a sum of n terms add
/// up like sqrt(n) rather than n, except with a probability of 2 exp(-kDeviations^2 / 2)).
///   x op y, an operation of a type with unit roundoff u:  e = |d op/dx| e_x + |d op/dy| e_y + u |result|
///   s + x, where s is the accumulator of a reduction:     e^2 = e_s^2 + e_x^2 + u^2 ((s + x)^2 + x^2)
///   the same for integers, which do not round:            e^2 = e_s^2 + e_x^2
///   a library function:                                   derivative from its values at x +- kDeviations e_x, and 4 u
///   a comparison, rounding to an integer, selection:      0 if both ends of x +- kDeviations e_x agree, otherwise the
///                                                         change that the other outcome would cause
/// Exact values stay exact: the error is zero if the operands have none and the result needs no rounding.
/// Two correct results differ by at most kDeviations times the sum of their estimates.
inline constexpr double kDeviations = 8;
/// An estimate of this size marks an element whose value is unknown.
inline constexpr double kUnknownError = 1e300;

}  // namespace tessera::compiler::interpreter
