#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "mlir/IR/Types.h"

namespace tessera::compiler::interpreter {

/// An element type apart from any MLIR context. i1 is 0 or 1; other integers are sign-extended; an index has 64 bits.
struct Element {
  enum class Kind : uint8_t { kInteger, kF16, kBF16, kF32, kF64 };
  Kind kind = Kind::kF32;
  unsigned bits = 32;

  bool isReal() const { return kind != Kind::kInteger; }
  bool operator==(const Element&) const = default;
};

/// Whether elements of this MLIR type can be held, and as what.
bool isElement(mlir::Type type);
Element elementOf(mlir::Type type);

/// What rounding to a floating-point type does, by IEEE 754: `precision` significant bits, smallest normal
/// 2^min_exponent.
struct Format {
  int precision;
  int min_exponent;
  double largest;

  double unitRoundoff() const { return std::ldexp(1.0, -precision); }
  double smallestNormal() const { return std::ldexp(1.0, min_exponent); }
  double smallest() const { return std::ldexp(1.0, min_exponent - precision + 1); }
};
const Format& formatOf(Element element);

/// To the nearest value of the type, ties to even: once, directly from double precision. Integers are not for this.
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

/// To `bits` bits in two's complement, read back signed (i1 as 0 or 1).
inline int64_t wrapTo(unsigned bits, int64_t value) {
  if (bits >= 64) return value;
  const uint64_t low = static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
  if (bits == 1 || (low >> (bits - 1)) == 0) return static_cast<int64_t>(low);
  return static_cast<int64_t>(low | ~((uint64_t{1} << bits) - 1));
}
inline uint64_t zeroExtended(unsigned bits, int64_t value) {
  return bits >= 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
}

/// The running error estimate that goes with every element: about how far a right answer may lie from the value that
/// is carried, in the way of one standard deviation (Higham, Accuracy and Stability of Numerical Algorithms, 3.3:
/// running error analysis; sums as in Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019: rounding errors of a sum of n
/// terms add up like sqrt(n) and not like n, except with a probability of 2 exp(-kDeviations^2 / 2)).
///   x op y, an operation of a type with unit roundoff u:  e = |d op/dx| e_x + |d op/dy| e_y + u |result|
///   s + x, where s is a sum that a reduction builds up:   e^2 = e_s^2 + e_x^2 + u^2 ((s + x)^2 + x^2)
///   the same of integers, which round nothing:        e^2 = e_s^2 + e_x^2
///   a function of the library:                            derivative by its values at x +- kDeviations e_x, and 4 u
///   a comparison, rounding to an integer, selection:      0 when both ends of x +- kDeviations e_x agree, else what
///                                                         the other answer would change
/// What is exact stays exact: no error where operands have none and the result needs no rounding.
/// Two right answers lie within kDeviations times the sum of their estimates.
inline constexpr double kDeviations = 8;
/// An estimate of this size says that nothing can be said of the element.
inline constexpr double kUndecidable = 1e300;

}  // namespace tessera::compiler::interpreter
