#include "compiler/graph/constants/element_arithmetic.h"

#include <bit>
#include <cmath>
#include <limits>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

using mlir::Type;

bool isNarrowFloat(Type type) { return type.isF16() || type.isBF16(); }

bool isElementSupported(Type type) {
  if (type.isIndex() || type.isF32() || type.isF64() || isNarrowFloat(type)) return true;
  auto integer = mlir::dyn_cast<mlir::IntegerType>(type);
  return integer && (integer.getWidth() == 1 || integer.getWidth() == 8 || integer.getWidth() == 16 ||
                     integer.getWidth() == 32 || integer.getWidth() == 64);
}

namespace {

/// Widens by APFloat, which is slow, for NaNs only, because it keeps their payload.
float widenedByRules(Type type, uint16_t bits) {
  llvm::APFloat value(mlir::cast<mlir::FloatType>(type).getFloatSemantics(), llvm::APInt(16, bits));
  bool lossy = false;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToFloat();
}

uint16_t narrowedByRules(Type type, float value) {
  llvm::APFloat narrow(value);
  bool lossy = false;
  narrow.convert(mlir::cast<mlir::FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return static_cast<uint16_t>(narrow.bitcastToAPInt().getZExtValue());
}

constexpr uint32_t kSign = 0x80000000;
constexpr int kHalfFraction = 10, kFloatFraction = 23, kDropped = kFloatFraction - kHalfFraction;
constexpr uint32_t kBiasDifference = uint32_t{127 - 15} << kFloatFraction;  // difference of the exponent biases of f32
                                                                            // and f16

}  // namespace

float widened(Type type, uint16_t bits) {
  if (type.isBF16()) {
    const float value = std::bit_cast<float>(uint32_t{bits} << 16);
    return std::isnan(value) ? widenedByRules(type, bits) : value;
  }
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t magnitude = bits & 0x7fffU;
  if (magnitude > 0x7c00) return widenedByRules(type, bits);
  if (magnitude == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000U);
  if (magnitude < 0x0400) {  // subnormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << kDropped) + kBiasDifference));
}

uint16_t narrowed(Type type, float value) {
  if (std::isnan(value)) return narrowedByRules(type, value);
  const auto bits = std::bit_cast<uint32_t>(value);
  // Rounding up may carry into the exponent, up to infinity; that is correct.
  if (type.isBF16()) return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  const uint32_t sign = bits & kSign;
  const uint32_t magnitude = bits ^ sign;
  uint32_t half = 0x7c00;
  if (magnitude < 0x38800000) {  // below 2^-14: rounded to a multiple of 2^-24, the last bit of the sum
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  } else if (magnitude < 0x47800000) {  // below 2^16
    half = (magnitude - kBiasDifference + 0xfff + (magnitude >> kDropped & 1)) >> kDropped;
  }
  return static_cast<uint16_t>(sign >> 16 | half);
}

float roundTo(Type type, float value) { return isNarrowFloat(type) ? widened(type, narrowed(type, value)) : value; }

unsigned elementWidth(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

int64_t wrapTo(Type type, int64_t value) {
  const unsigned width = elementWidth(type);
  if (width == 64) return value;
  if (width == 1) return value & 1;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - width)) >> (64 - width);
}

uint64_t zeroExtended(Type type, int64_t value) {
  const unsigned width = elementWidth(type);
  return width == 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t{1} << width) - 1);
}

namespace {

double nanMax(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }
double nanMin(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b); }

/// Makes a rule from a captureless lambda on one element, for float and double alike.
template <typename Apply>
constexpr FloatUnaryRule unary(const char* name, Apply) {
  return {name,
          [](const float* a, float* result, int64_t count) {
            for (int64_t i = 0; i < count; ++i) result[i] = Apply()(a[i]);
          },
          [](const double* a, double* result, int64_t count) {
            for (int64_t i = 0; i < count; ++i) result[i] = Apply()(a[i]);
          }};
}

template <typename Apply>
constexpr FloatBinaryRule binary(const char* name, Apply) {
  return {name,
          [](const float* a, const float* b, float* result, int64_t count) {
            for (int64_t i = 0; i < count; ++i) result[i] = Apply()(a[i], b[i]);
          },
          [](const double* a, const double* b, double* result, int64_t count) {
            for (int64_t i = 0; i < count; ++i) result[i] = Apply()(a[i], b[i]);
          }};
}

constexpr FloatUnaryRule kUnary[] = {
    unary("arith.negf", [](auto a) { return -a; }),
    unary("math.absf", [](auto a) { return std::fabs(a); }),
    unary("math.sqrt", [](auto a) { return std::sqrt(a); }),
    unary("math.rsqrt", [](auto a) { return decltype(a){1} / std::sqrt(a); }),
    unary("math.exp", [](auto a) { return std::exp(a); }),
    unary("math.log", [](auto a) { return std::log(a); }),
    unary("math.tanh", [](auto a) { return std::tanh(a); }),
    unary("math.erf", [](auto a) { return std::erf(a); }),
    unary("math.sin", [](auto a) { return std::sin(a); }),
    unary("math.cos", [](auto a) { return std::cos(a); }),
    unary("math.floor", [](auto a) { return std::floor(a); }),
    unary("math.ceil", [](auto a) { return std::ceil(a); }),
    unary("math.trunc", [](auto a) { return std::trunc(a); }),
    unary("math.roundeven", [](auto a) { return std::nearbyint(a); }),
};

constexpr FloatBinaryRule kBinary[] = {
    binary("arith.addf", [](auto a, auto b) { return a + b; }),
    binary("arith.subf", [](auto a, auto b) { return a - b; }),
    binary("arith.mulf", [](auto a, auto b) { return a * b; }),
    binary("arith.divf", [](auto a, auto b) { return a / b; }),
    binary("arith.remf", [](auto a, auto b) { return std::fmod(a, b); }),
    binary("arith.maximumf", [](auto a, auto b) { return static_cast<decltype(a)>(nanMax(a, b)); }),
    binary("arith.minimumf", [](auto a, auto b) { return static_cast<decltype(a)>(nanMin(a, b)); }),
    binary("arith.maxnumf", [](auto a, auto b) { return std::fmax(a, b); }),
    binary("arith.minnumf", [](auto a, auto b) { return std::fmin(a, b); }),
    binary("math.powf", [](auto a, auto b) { return std::pow(a, b); }),
};

// Wrapping arithmetic is unsigned. Division by zero is undefined in MLIR and gives 0 here.
constexpr IntegerBinaryRule kInteger[] = {
    {"arith.addi", true, [](int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) + uint64_t(b)); }},
    {"arith.subi", true, [](int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) - uint64_t(b)); }},
    {"arith.muli", true, [](int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) * uint64_t(b)); }},
    {"arith.andi", true, [](int64_t a, int64_t b) { return a & b; }},
    {"arith.ori", true, [](int64_t a, int64_t b) { return a | b; }},
    {"arith.xori", true, [](int64_t a, int64_t b) { return a ^ b; }},
    {"arith.shli", true, [](int64_t a, int64_t b) { return b > 63 ? 0 : static_cast<int64_t>(uint64_t(a) << b); }},
    {"arith.shrui", true, [](int64_t a, int64_t b) { return b > 63 ? 0 : static_cast<int64_t>(uint64_t(a) >> b); }},
    {"arith.shrsi", false, [](int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }},
    {"arith.divsi", false,
     [](int64_t a, int64_t b) { return b == 0    ? 0
                                       : b == -1 ? int64_t(0 - uint64_t(a))
                                                 : a / b; }},
    {"arith.remsi", false, [](int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }},
    {"arith.divui", true,
     [](int64_t a, int64_t b) { return b == 0 ? 0 : static_cast<int64_t>(uint64_t(a) / uint64_t(b)); }},
    {"arith.remui", true,
     [](int64_t a, int64_t b) { return b == 0 ? 0 : static_cast<int64_t>(uint64_t(a) % uint64_t(b)); }},
    {"arith.maxsi", false, [](int64_t a, int64_t b) { return std::max(a, b); }},
    {"arith.minsi", false, [](int64_t a, int64_t b) { return std::min(a, b); }},
    {"arith.maxui", true, [](int64_t a, int64_t b) { return uint64_t(a) > uint64_t(b) ? a : b; }},
    {"arith.minui", true, [](int64_t a, int64_t b) { return uint64_t(a) < uint64_t(b) ? a : b; }},
};

template <typename Rule>
const Rule* findRule(llvm::ArrayRef<Rule> rules, llvm::StringRef name) {
  const auto* found = llvm::find_if(rules, [&](const Rule& rule) { return name == rule.name; });
  return found == rules.end() ? nullptr : found;
}

}  // namespace

const FloatUnaryRule* findFloatUnary(llvm::StringRef name) {
  return findRule(llvm::ArrayRef<FloatUnaryRule>(kUnary), name);
}
const FloatBinaryRule* findFloatBinary(llvm::StringRef name) {
  return findRule(llvm::ArrayRef<FloatBinaryRule>(kBinary), name);
}
const IntegerBinaryRule* findIntegerBinary(llvm::StringRef name) {
  return findRule(llvm::ArrayRef<IntegerBinaryRule>(kInteger), name);
}

bool compareFloats(mlir::arith::CmpFPredicate predicate, double a, double b) {
  using P = mlir::arith::CmpFPredicate;
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
    case P::AlwaysFalse:
      return false;
    case P::AlwaysTrue:
      return true;
    case P::ORD:
      return !unordered;
    case P::UNO:
      return unordered;
    case P::OEQ:
      return a == b;
    case P::OGT:
      return a > b;
    case P::OGE:
      return a >= b;
    case P::OLT:
      return a < b;
    case P::OLE:
      return a <= b;
    case P::ONE:
      return !unordered && a != b;
    case P::UEQ:
      return unordered || a == b;
    case P::UGT:
      return unordered || a > b;
    case P::UGE:
      return unordered || a >= b;
    case P::ULT:
      return unordered || a < b;
    case P::ULE:
      return unordered || a <= b;
    case P::UNE:
      return a != b;
  }
  return false;
}

bool compareIntegers(mlir::arith::CmpIPredicate predicate, Type type, int64_t a, int64_t b) {
  using P = mlir::arith::CmpIPredicate;
  const uint64_t ua = zeroExtended(type, a);
  const uint64_t ub = zeroExtended(type, b);
  switch (predicate) {
    case P::eq:
      return a == b;
    case P::ne:
      return a != b;
    case P::slt:
      return a < b;
    case P::sle:
      return a <= b;
    case P::sgt:
      return a > b;
    case P::sge:
      return a >= b;
    case P::ult:
      return ua < ub;
    case P::ule:
      return ua <= ub;
    case P::ugt:
      return ua > ub;
    case P::uge:
      return ua >= ub;
  }
  return false;
}

int64_t floatToInteger(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9.2233720368547748e18) return std::numeric_limits<int64_t>::max();
  if (value <= -9.2233720368547758e18) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace tessera::compiler
