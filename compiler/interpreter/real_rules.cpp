#include "compiler/interpreter/real_rules.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numbers>
#include <string>

#include "mlir/Dialect/Arith/IR/Arith.h"

// Prevents the compiler from fusing products and sums on any processor.
#pragma clang fp contract(off)

namespace tessera::compiler::interpreter {
namespace {

using Kind = Element::Kind;
using Predicate = mlir::arith::CmpFPredicate;

/// A sum counts as exact in any order if its terms and partial sums leave this many bits of the type unused.
constexpr int kSpareBits = 4;

/// Whether x has at most 53 - k bits, where split = 2^k + 1 (Veltkamp's splitting).
bool fits(double x, double split) {
  const double shifted = x * split;
  return shifted - (shifted - x) == x;
}

struct Rounding {
  explicit Rounding(Element element)
      : element(element),
        u(formatOf(element).unitRoundoff()),
        tiny(formatOf(element).smallest()),
        split(std::ldexp(1.0, 53 - formatOf(element).precision + kSpareBits) + 1) {}
  double operator()(double x) const { return roundTo(element, x); }
  /// Error of one rounding; zero if the result is exact, which cannot be detected for double precision itself.
  double error(double result, double before, double of_operands) const {
    if (result == before && of_operands == 0 && element.kind != Kind::kF64) return 0;
    return u * std::fabs(result) + tiny;
  }
  bool isShort(double x) const { return fits(x, split); }
  Element element;
  double u, tiny, split;
};

/// Single precision without branches, for the hottest loops.
struct SingleRounding {
  explicit SingleRounding(Element) {}
  double operator()(double x) const { return static_cast<double>(static_cast<float>(x)); }
  double error(double result, double before, double of_operands) const {
    const double error = 0x1p-24 * std::fabs(result) + 0x1p-149;
    return result == before && of_operands == 0 ? 0 : error;
  }
  bool isShort(double x) const { return fits(x, 0x1p33 + 1); }
  static constexpr double u = 0x1p-24;
};

template <typename Round, typename Fn>
void eachLane(const RuleContext& context, Lanes& out, int count, Fn fn) {
  const Round round(context.type);
  for (int i = 0; i < count; ++i) {
    const auto [value, before, error] = fn(round, i);
    out.real[i] = value;
    out.error[i] = error;
  }
}

struct Outcome {
  double value, before, error;
};

/// s + x and s - x for the accumulator s of a reduction: unrounded, with independent errors.
template <typename Round>
Outcome accumulated(const Round& round, double sum, double sum_error, double term, double term_error) {
  const double value = sum + term;
  // Sums of numbers with few bits are exact in any order. Sums that use all bits of their type may be exact in this
  // order only: in another order a partial sum may be larger, or need a finer grid.
  const bool exact = sum_error == 0 && term_error == 0 && round.isShort(value) && round.isShort(term);
  // One rounding of the term and one of the partial sum.
  const double own = round.u * round.u * (value * value + term * term);
  const double error = exact ? 0 : __builtin_elementwise_sqrt(sum_error * sum_error + term_error * term_error + own);
  return {value, value, settled(value, error, sum_error + term_error)};
}

template <typename Round>
void add(const RuleContext& c, const Lanes* const* in, Lanes& out, int count, double sign) {
  const Lanes &a = *in[0], &b = *in[1];
  if (c.accumulates) {
    eachLane<Round>(c, out, count, [&](const Round& round, int i) {
      return accumulated(round, a.real[i], a.error[i], sign * b.real[i], b.error[i]);
    });
    return;
  }
  eachLane<Round>(c, out, count, [&](const Round& round, int i) -> Outcome {
    const double before = a.real[i] + sign * b.real[i], value = round(before), of = a.error[i] + b.error[i];
    return {value, before, settled(value, of + round.error(value, before, of), of)};
  });
}

template <typename Round>
void multiply(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Lanes &a = *in[0], &b = *in[1];
  eachLane<Round>(c, out, count, [&](const Round& round, int i) -> Outcome {
    const double before = a.real[i] * b.real[i], value = round(before), of = a.error[i] + b.error[i];
    const double error = std::fabs(a.real[i]) * b.error[i] + (std::fabs(b.real[i]) + b.error[i]) * a.error[i];
    return {value, before, settled(value, error + round.error(value, before, of), of)};
  });
}

template <typename Round>
void divide(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Lanes &a = *in[0], &b = *in[1];
  eachLane<Round>(c, out, count, [&](const Round& round, int i) -> Outcome {
    const double before = a.real[i] / b.real[i], value = round(before), of = a.error[i] + b.error[i];
    // The divisor may be zero.
    if (b.error[i] > 0 && std::fabs(b.real[i]) <= kDeviations * b.error[i]) return {value, before, kUnknownError};
    if (b.real[i] == 0)
      return {value, before, std::fabs(a.real[i]) > kDeviations * a.error[i] || a.error[i] == 0 ? 0 : kUnknownError};
    // Not exact unless the product with the reciprocal is: the compiler may replace a division by a constant by it.
    int exponent = 0;
    const bool exact = a.real[i] == 0 || std::frexp(std::fabs(b.real[i]), &exponent) == 0.5;
    const double error = (a.error[i] + std::fabs(before) * b.error[i]) / std::fabs(b.real[i]);
    return {value, before, settled(value, error + round.error(value, exact ? before : NAN, of), of)};
  });
}

template <typename Round>
void fusedMultiplyAdd(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Lanes &a = *in[0], &b = *in[1], &s = *in[2];
  eachLane<Round>(c, out, count, [&](const Round& round, int i) -> Outcome {
    const double term = a.real[i] * b.real[i];
    const double of_term = std::fabs(a.real[i]) * b.error[i] + (std::fabs(b.real[i]) + b.error[i]) * a.error[i];
    if (c.accumulates) return accumulated(round, s.real[i], s.error[i], term, of_term);
    const double before = term + s.real[i], value = round(before), of = of_term + s.error[i];
    return {value, before, settled(value, of + round.error(value, before, of) + round.u * std::fabs(term), of)};
  });
}

/// The hottest loops exist twice: for single precision, and for all types.
template <auto Single, auto Any>
void bySingle(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  (c.type.kind == Kind::kF32 ? Single : Any)(c, in, out, count);
}

void addRule(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  c.type.kind == Kind::kF32 ? add<SingleRounding>(c, in, out, count, 1) : add<Rounding>(c, in, out, count, 1);
}
void subtractRule(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  c.type.kind == Kind::kF32 ? add<SingleRounding>(c, in, out, count, -1) : add<Rounding>(c, in, out, count, -1);
}

/// The ends of an argument's error interval bound the error of the function's value.
void unary(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Format& format = formatOf(c.type);
  for (int i = 0; i < count; ++i) {
    const double x = in[0]->real[i], reach = kDeviations * in[0]->error[i];
    const double exact = c.function(x), value = roundTo(c.type, exact);
    double error = 0;
    if (reach > 0 && in[0]->error[i] < kUnknownError) {
      error = std::max(reaching(c.function(x - reach) - exact), reaching(c.function(x + reach) - exact));
      // Functions that are not monotonic may leave the range of both ends.
      if (c.between) error = std::max(error, reaching(c.between(x, reach)));
    } else if (reach > 0) {
      error = kUnknownError;
    }
    // A library may flush denormals.
    if (c.own_ulps > 0 && std::isfinite(value)) {
      error += c.own_ulps * format.unitRoundoff() * std::fabs(value) + format.smallestNormal();
    }
    out.real[i] = value;
    out.error[i] = std::isfinite(value) || error >= kUnknownError ? settled(value, error, error) : 0;
  }
}

constexpr double (*kRemainder)(double, double) = std::fmod;

void binary(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Format& format = formatOf(c.type);
  for (int i = 0; i < count; ++i) {
    const double x = in[0]->real[i], y = in[1]->real[i];
    const double of = in[0]->error[i] + in[1]->error[i];
    const double exact = c.function2(x, y), value = roundTo(c.type, exact);
    double error = 0;
    if (of >= kUnknownError) {
      error = kUnknownError;
    } else {
      const double dx = kDeviations * in[0]->error[i], dy = kDeviations * in[1]->error[i];
      if (dx > 0) error += std::max(reaching(c.function2(x - dx, y) - exact), reaching(c.function2(x + dx, y) - exact));
      if (dy > 0) error += std::max(reaching(c.function2(x, y - dy) - exact), reaching(c.function2(x, y + dy) - exact));
      // A remainder may wrap around within one divisor.
      if (c.function2 == kRemainder && dx + dy > 0) {
        const double least = std::trunc((std::fabs(x) - dx) / (std::fabs(y) + dy));
        const double most = std::trunc((std::fabs(x) + dx) / (std::fabs(y) - dy));
        if (least != most) error = std::max(error, reaching(std::fabs(y) + dy + std::fabs(exact)));
      }
    }
    if (c.own_ulps > 0 && std::isfinite(value)) {
      // pow is exp(y log x): its relative error grows with the exponent.
      const double scale = std::max(1.0, std::fabs(std::log(std::fabs(value) + format.smallestNormal())));
      error += c.own_ulps * scale * format.unitRoundoff() * std::fabs(value) + format.smallestNormal();
    }
    out.real[i] = value;
    out.error[i] = settled(value, error, error < kUnknownError ? 0 : kUnknownError);
  }
}

/// The larger or smaller operand; `kNumbers`: a number is preferred to a NaN.
template <bool kLargest, bool kNumbers>
void choose(const RuleContext&, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const double a = in[0]->real[i], b = in[1]->real[i], ea = in[0]->error[i], eb = in[1]->error[i];
    const bool first = std::isnan(a) != std::isnan(b) ? std::isnan(a) != kNumbers : (kLargest ? a >= b : a <= b);
    out.real[i] = first ? a : b;
    // Either operand may be the larger one.
    const bool close = !(std::fabs(a - b) > kDeviations * (ea + eb));
    out.error[i] = close ? std::max(ea, eb) : (first ? ea : eb);
  }
}

bool compares(Predicate predicate, double a, double b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
    case Predicate::AlwaysFalse:
      return false;
    case Predicate::OEQ:
      return a == b;
    case Predicate::OGT:
      return a > b;
    case Predicate::OGE:
      return a >= b;
    case Predicate::OLT:
      return a < b;
    case Predicate::OLE:
      return a <= b;
    case Predicate::ONE:
      return !unordered && a != b;
    case Predicate::ORD:
      return !unordered;
    case Predicate::UEQ:
      return unordered || a == b;
    case Predicate::UGT:
      return unordered || a > b;
    case Predicate::UGE:
      return unordered || a >= b;
    case Predicate::ULT:
      return unordered || a < b;
    case Predicate::ULE:
      return unordered || a <= b;
    case Predicate::UNE:
      return unordered || a != b;
    case Predicate::UNO:
      return unordered;
    case Predicate::AlwaysTrue:
      return true;
  }
  return false;
}

void compare(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const double a = in[0]->real[i], b = in[1]->real[i], of = in[0]->error[i] + in[1]->error[i];
    out.integer[i] = compares(static_cast<Predicate>(c.predicate), a, b);
    // Both outcomes are possible.
    const bool near = of > 0 && !c.same_operands && std::fabs(a - b) <= kDeviations * of;
    out.error[i] = of >= kUnknownError || near ? reaching(1) : 0;
  }
}

void select(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const Scalar yes = in[1]->get(i), no = in[2]->get(i);
    Scalar taken = in[0]->integer[i] != 0 ? yes : no;
    if (in[0]->error[i] > 0) {
      const bool real = c.type.isReal();
      const bool equal =
          real ? yes.real == no.real || (std::isnan(yes.real) && std::isnan(no.real)) : yes.integer == no.integer;
      const double distance =
          real ? yes.real - no.real : static_cast<double>(yes.integer) - static_cast<double>(no.integer);
      taken.error = std::max(yes.error, no.error) + (equal ? 0 : reaching(distance));
    }
    out.set(i, taken);
  }
}

void negate(const RuleContext&, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    out.real[i] = -in[0]->real[i];
    out.error[i] = in[0]->error[i];
  }
}

void absolute(const RuleContext&, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    out.real[i] = std::fabs(in[0]->real[i]);
    out.error[i] = in[0]->error[i];
  }
}

void copySign(const RuleContext&, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const double x = in[0]->real[i], sign = in[1]->real[i];
    out.real[i] = std::copysign(x, sign);
    const bool sure = in[1]->error[i] == 0 || std::fabs(sign) > kDeviations * in[1]->error[i];
    out.error[i] = in[0]->error[i] + (sure ? 0 : reaching(2 * x));
  }
}

/// Conversion between floating-point types. A single rounding of an exact value is exact itself, except from double
/// precision to 16 bits, where processors round via single precision.
void convert(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Rounding round(c.type);
  for (int i = 0; i < count; ++i) {
    const double x = in[0]->real[i], value = round(x), of = in[0]->error[i];
    const bool sure = of == 0 && (value == x || c.from.bits == 2 * c.type.bits);
    out.real[i] = value;
    out.error[i] = settled(value, sure || value == x ? of : of + round.u * std::fabs(value) + round.tiny, of);
  }
}

template <bool kUnsigned>
void fromInteger(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const Rounding round(c.type);
  for (int i = 0; i < count; ++i) {
    const int64_t x = in[0]->integer[i];
    const double wide = kUnsigned ? static_cast<double>(zeroExtended(c.from.bits, x)) : static_cast<double>(x);
    out.real[i] = round(wide);
    const double of = in[0]->error[i];
    out.error[i] = settled(out.real[i], of + (out.real[i] == wide ? 0 : round.u * std::fabs(wide)), of);
  }
}

double inRange(double x, bool is_unsigned, unsigned bits) {
  const double limit = std::ldexp(1.0, static_cast<int>(bits) - (is_unsigned ? 0 : 1));
  if (std::isnan(x)) return 0;
  return std::clamp(std::trunc(x), is_unsigned ? 0 : -limit, limit);
}

/// Toward zero. MLIR leaves the result undefined out of range; here it saturates.
template <bool kUnsigned>
void toInteger(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const double x = in[0]->real[i], reach = kDeviations * in[0]->error[i];
    const double whole = inRange(x, kUnsigned, c.type.bits);
    const bool beyond = whole >= std::ldexp(1.0, static_cast<int>(c.type.bits) - (kUnsigned ? 0 : 1));
    if (kUnsigned) {
      out.integer[i] = wrapTo(c.type.bits, beyond ? -1 : static_cast<int64_t>(static_cast<uint64_t>(whole)));
    } else {
      out.integer[i] =
          beyond ? static_cast<int64_t>((uint64_t{1} << (c.type.bits - 1)) - 1) : static_cast<int64_t>(whole);
    }
    if (std::isnan(x) || in[0]->error[i] >= kUnknownError) {
      out.error[i] = reach > 0 ? kUnknownError : 0;
    } else {
      out.error[i] = reach == 0 ? 0
                                : std::max(reaching(inRange(x - reach, kUnsigned, c.type.bits) - whole),
                                           reaching(inRange(x + reach, kUnsigned, c.type.bits) - whole));
    }
  }
}

void bitcast(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const uint64_t bits =
        c.from.isReal() ? bitsOf(c.from, in[0]->real[i]) : zeroExtended(c.from.bits, in[0]->integer[i]);
    if (c.type.isReal()) {
      out.real[i] = realOf(c.type, bits);
    } else {
      out.integer[i] = wrapTo(c.type.bits, static_cast<int64_t>(bits));
    }
    out.error[i] = in[0]->error[i] > 0 ? kUnknownError : 0;
  }
}

struct Function {
  double (*apply)(double);
  double ulps;  // error bound of a library's function, twice the error of this processor's own
  double (*between)(double, double) = nullptr;
};

/// Sine and cosine: within a quarter period, no value in the interval is farther away than both ends.
double swing(double, double reach) { return reach > std::numbers::pi / 2 ? 2 : 0; }

/// The tangent has poles that the ends of the interval do not show.
double pole(double x, double reach) {
  const auto branch = [](double at) { return std::floor(at / std::numbers::pi + 0.5); };
  return branch(x - reach) == branch(x + reach) ? 0 : std::numeric_limits<double>::infinity();
}

const std::map<llvm::StringRef, Function>& functions() {
  static constexpr double kLibrary = 8;
  static const std::map<llvm::StringRef, Function> kFunctions = {
      {"math.exp", {std::exp, kLibrary}},
      {"math.exp2", {std::exp2, kLibrary}},
      {"math.expm1", {std::expm1, kLibrary}},
      {"math.log", {std::log, kLibrary}},
      {"math.log2", {std::log2, kLibrary}},
      {"math.log10", {std::log10, kLibrary}},
      {"math.log1p", {std::log1p, kLibrary}},
      {"math.sin", {std::sin, kLibrary, swing}},
      {"math.cos", {std::cos, kLibrary, swing}},
      {"math.tan", {std::tan, kLibrary, pole}},
      {"math.asin", {std::asin, kLibrary}},
      {"math.acos", {std::acos, kLibrary}},
      {"math.atan", {std::atan, kLibrary}},
      {"math.sinh", {std::sinh, kLibrary}},
      {"math.cosh", {std::cosh, kLibrary}},
      {"math.tanh", {std::tanh, kLibrary}},
      {"math.asinh", {std::asinh, kLibrary}},
      {"math.acosh", {std::acosh, kLibrary}},
      {"math.atanh", {std::atanh, kLibrary}},
      {"math.erf", {std::erf, kLibrary}},
      {"math.erfc", {std::erfc, kLibrary}},
      {"math.cbrt", {std::cbrt, kLibrary}},
      {"math.sqrt", {std::sqrt, 1}},
      {"math.rsqrt", {[](double x) { return 1 / std::sqrt(x); }, kLibrary}},
      {"math.floor", {std::floor, 0}},
      {"math.ceil", {std::ceil, 0}},
      {"math.trunc", {std::trunc, 0}},
      {"math.round", {std::round, 0}},
      {"math.roundeven", {std::nearbyint, 0}},
  };
  return kFunctions;
}

const std::map<llvm::StringRef, Rule>& rules() {
  static const std::map<llvm::StringRef, Rule> kRules = {
      {"arith.addf", addRule},
      {"arith.subf", subtractRule},
      {"arith.mulf", bySingle<multiply<SingleRounding>, multiply<Rounding>>},
      {"arith.divf", bySingle<divide<Rounding>, divide<Rounding>>},
      {"math.fma", bySingle<fusedMultiplyAdd<SingleRounding>, fusedMultiplyAdd<Rounding>>},
      {"arith.maximumf", choose<true, false>},
      {"arith.minimumf", choose<false, false>},
      {"arith.maxnumf", choose<true, true>},
      {"arith.minnumf", choose<false, true>},
      {"arith.cmpf", compare},
      {"arith.select", select},
      {"arith.negf", negate},
      {"math.absf", absolute},
      {"math.copysign", copySign},
      {"arith.extf", convert},
      {"arith.truncf", convert},
      {"arith.sitofp", fromInteger<false>},
      {"arith.uitofp", fromInteger<true>},
      {"arith.fptosi", toInteger<false>},
      {"arith.fptoui", toInteger<true>},
      {"arith.bitcast", bitcast},
  };
  return kRules;
}

}  // namespace

Rule realRule(llvm::StringRef name, RuleContext& context) {
  if (auto it = rules().find(name); it != rules().end()) return it->second;
  if (auto it = functions().find(name); it != functions().end()) {
    context.function = it->second.apply;
    context.own_ulps = it->second.ulps;
    context.between = it->second.between;
    return unary;
  }
  if (name == "math.powf" || name == "math.atan2" || name == "arith.remf") {
    context.function2 = name == "math.powf"    ? static_cast<double (*)(double, double)>(std::pow)
                        : name == "math.atan2" ? static_cast<double (*)(double, double)>(std::atan2)
                                               : kRemainder;
    context.own_ulps = name == "arith.remf" ? 0 : 8;
    return binary;
  }
  return nullptr;
}

Scalar rounded(Element element, Scalar value) {
  if (!element.isReal()) return value;
  const Rounding round(element);
  const double before = value.real;
  value.real = round(before);
  // The accumulated estimate is kept; the last rounding is of the same kind as those before it.
  if (value.real != before)
    value.error = settled(value.real, value.error + round.u * std::fabs(value.real), value.error);
  return value;
}

}  // namespace tessera::compiler::interpreter
