#include "compiler/backends/spatial/evaluator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "proto/messages/element_size.h"

// A product and a sum are two operations on every machine.
#pragma clang fp contract(off)

namespace tessera::compiler::simulator {
namespace {

int64_t wrapped(int64_t value, int bits) {
  if (bits == 64) return value;
  if (bits == 1) return value & 1;
  const int unused = 64 - bits;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
}

uint64_t unsignedOf(int64_t value, int bits) {
  return bits == 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
}

/// As a signed number: a set bool is -1.
int64_t signedOf(int64_t value, int bits) { return bits == 1 ? -value : value; }

/// Rounds a single-precision result to the type in which it is kept.
float roundedTo(v1::DataType type, float value) {
  if (type == v1::DATA_TYPE_F16) return roundedToHalf(value);
  if (type == v1::DATA_TYPE_BF16) return roundedToBrain(value);
  return value;
}

bool compareReal(int predicate, double a, double b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  constexpr int kFirstUnordered = 8;
  switch (predicate) {
    case 0:
      return false;
    case 7:
      return !unordered;
    case 14:
      return unordered;
    case 15:
      return true;
    default:
      break;
  }
  if (unordered) return predicate >= kFirstUnordered;
  switch (predicate < kFirstUnordered ? predicate : predicate - 7) {
    case 1:
      return a == b;
    case 2:
      return a > b;
    case 3:
      return a >= b;
    case 4:
      return a < b;
    case 5:
      return a <= b;
    default:
      return a != b;
  }
}

bool compareWhole(int predicate, int64_t a, int64_t b, int bits) {
  const int64_t left = signedOf(a, bits), right = signedOf(b, bits);
  const uint64_t up = unsignedOf(a, bits), down = unsignedOf(b, bits);
  switch (predicate) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return left < right;
    case 3:
      return left <= right;
    case 4:
      return left > right;
    case 5:
      return left >= right;
    case 6:
      return up < down;
    case 7:
      return up <= down;
    case 8:
      return up > down;
    default:
      return up >= down;
  }
}

template <typename Real>
Real largerOf(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;  // -0 is less than 0
  return a > b ? a : b;
}
template <typename Real>
Real smallerOf(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? minus(0, a) : a / b; }
int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

int64_t saturated(double value, int bits, bool is_signed) {
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (is_signed) {
    const double end = std::ldexp(1.0, bits - 1);
    if (whole >= end) return static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
    if (whole < -end) return wrapped(static_cast<int64_t>(uint64_t{1} << (bits - 1)), bits);
    return wrapped(static_cast<int64_t>(whole), bits);
  }
  if (whole <= 0) return 0;
  if (whole >= std::ldexp(1.0, bits)) return wrapped(-1, bits);
  return wrapped(static_cast<int64_t>(static_cast<uint64_t>(whole)), bits);
}

}  // namespace

/// Loops over a strip, one for each kind of operands and results.
struct Operations {
  using Instruction = Evaluator::Instruction;
  using Apply = Evaluator::Apply;
  using Values = const StripValue* const*;

  /// Three loops for one function: single precision, f16 and bf16 rounded from it, and double precision.
  template <int kOperands, typename Function>
  static Apply real(v1::DataType type, Function) {
    if (type == v1::DATA_TYPE_F64) return realLoop<double, kOperands, Function, v1::DATA_TYPE_F64>;
    if (type == v1::DATA_TYPE_F16) return realLoop<float, kOperands, Function, v1::DATA_TYPE_F16>;
    if (type == v1::DATA_TYPE_BF16) return realLoop<float, kOperands, Function, v1::DATA_TYPE_BF16>;
    return realLoop<float, kOperands, Function, v1::DATA_TYPE_F32>;
  }

  template <typename Real, typename Value>
  static auto* realOf(Value& value) {
    if constexpr (std::is_same_v<Real, double>) {
      return value.real();
    } else {
      return value.single();
    }
  }

  template <typename Real, int kOperands, typename Function, v1::DataType kType>
  static void realLoop(const Instruction&, Values in, StripValue& out, int count) {
    constexpr Function kFunction;
    Real* to = realOf<Real>(out);
    const Real* a = realOf<Real>(*in[0]);
    for (int i = 0; i < count; ++i) {
      Real result = 0;
      if constexpr (kOperands == 1) result = kFunction(a[i]);
      if constexpr (kOperands == 2) result = kFunction(a[i], realOf<Real>(*in[1])[i]);
      if constexpr (kOperands == 3) result = kFunction(a[i], realOf<Real>(*in[1])[i], realOf<Real>(*in[2])[i]);
      if constexpr (std::is_same_v<Real, float>) {
        to[i] = roundedTo(kType, result);
      } else {
        to[i] = result;
      }
    }
  }

  /// The function takes operands and their number of bits.
  template <int kOperands, typename Function>
  static Apply whole(Function) {
    return [](const Instruction& instruction, Values in, StripValue& out, int count) {
      constexpr Function kFunction;
      const int bits = instruction.to_bits;
      const int64_t *a = in[0]->whole(), *b = in[kOperands - 1]->whole();
      int64_t* to = out.whole();
      for (int i = 0; i < count; ++i) {
        if constexpr (kOperands == 1) to[i] = wrapped(kFunction(a[i], bits), bits);
        if constexpr (kOperands == 2) to[i] = wrapped(kFunction(a[i], b[i], bits), bits);
      }
    };
  }

  static void compareReals(const Instruction& instruction, Values in, StripValue& out, int count) {
    const bool is_double = instruction.from == v1::DATA_TYPE_F64;
    for (int i = 0; i < count; ++i) {
      const double a = is_double ? in[0]->real()[i] : static_cast<double>(in[0]->single()[i]);
      const double b = is_double ? in[1]->real()[i] : static_cast<double>(in[1]->single()[i]);
      out.whole()[i] = compareReal(instruction.predicate, a, b);
    }
  }

  static void compareWholes(const Instruction& instruction, Values in, StripValue& out, int count) {
    for (int i = 0; i < count; ++i) {
      out.whole()[i] = compareWhole(instruction.predicate, in[0]->whole()[i], in[1]->whole()[i], instruction.from_bits);
    }
  }

  static void select(const Instruction& instruction, Values in, StripValue& out, int count) {
    const int64_t* chosen = in[0]->whole();
    if (keptAs(instruction.to) == Kept::kSingle) {
      for (int i = 0; i < count; ++i) out.single()[i] = chosen[i] != 0 ? in[1]->single()[i] : in[2]->single()[i];
    } else {
      for (int i = 0; i < count; ++i) out.whole()[i] = chosen[i] != 0 ? in[1]->whole()[i] : in[2]->whole()[i];
    }
  }

  static void put(const Instruction& instruction, StripValue& out, int i, double value) {
    if (instruction.to == v1::DATA_TYPE_F64) {
      out.real()[i] = value;
    } else {
      out.single()[i] = roundedTo(instruction.to, narrowed(instruction.to, value));
    }
  }

  /// To single precision, without a second rounding for narrower types: an inexact result is made odd.
  static float narrowed(v1::DataType type, double value) {
    const auto nearest = static_cast<float>(value);
    if (type == v1::DATA_TYPE_F32 || static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
    const float below =
        std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0F) : nearest;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(below) | 1U);
  }

  static void convertReal(const Instruction& instruction, Values in, StripValue& out, int count) {
    if (instruction.from == v1::DATA_TYPE_F64) {
      for (int i = 0; i < count; ++i) put(instruction, out, i, in[0]->real()[i]);
    } else if (instruction.to == v1::DATA_TYPE_F64) {
      for (int i = 0; i < count; ++i) out.real()[i] = static_cast<double>(in[0]->single()[i]);
    } else {
      for (int i = 0; i < count; ++i) out.single()[i] = roundedTo(instruction.to, in[0]->single()[i]);
    }
  }

  template <bool kSigned>
  static void fromWhole(const Instruction& instruction, Values in, StripValue& out, int count) {
    for (int i = 0; i < count; ++i) {
      const int64_t number = signedOf(in[0]->whole()[i], instruction.from_bits);
      const uint64_t plain = unsignedOf(in[0]->whole()[i], instruction.from_bits);
      if (instruction.to == v1::DATA_TYPE_F64) {
        out.real()[i] = kSigned ? static_cast<double>(number) : static_cast<double>(plain);
      } else if (instruction.to == v1::DATA_TYPE_F32) {
        out.single()[i] = kSigned ? static_cast<float>(number) : static_cast<float>(plain);
      } else {
        // Numbers that double precision does not hold exactly are beyond f16, and nowhere near a tie of bf16.
        put(instruction, out, i, kSigned ? static_cast<double>(number) : static_cast<double>(plain));
      }
    }
  }

  template <bool kSigned>
  static void toWhole(const Instruction& instruction, Values in, StripValue& out, int count) {
    const bool is_double = instruction.from == v1::DATA_TYPE_F64;
    for (int i = 0; i < count; ++i) {
      const double value = is_double ? in[0]->real()[i] : static_cast<double>(in[0]->single()[i]);
      out.whole()[i] = saturated(value, instruction.to_bits, kSigned);
    }
  }

  template <bool kSigned>
  static void resize(const Instruction& instruction, Values in, StripValue& out, int count) {
    for (int i = 0; i < count; ++i) {
      const int64_t from = in[0]->whole()[i];
      const int64_t number = kSigned ? signedOf(from, instruction.from_bits)
                                     : static_cast<int64_t>(unsignedOf(from, instruction.from_bits));
      out.whole()[i] = wrapped(number, instruction.to_bits);
    }
  }

  /// Through memory, as which both types are the same bytes.
  static void bits(const Instruction& instruction, Values in, StripValue& out, int count) {
    std::array<uint8_t, 8 * kStrip> bytes{};
    const int64_t first = 0;
    const StripPlace place{.positions = &first, .regular = true, .step = 1};
    writeStrip(instruction.from, bytes.data(), place, count, *in[0]);
    readStrip(instruction.to, bytes.data(), place, count, out);
  }

  static Apply ofReal(std::string_view wanted, v1::DataType type);
  static Apply ofWhole(std::string_view wanted);
  static Apply ofConversion(std::string_view name);
};

namespace {

/// A function of the library in both precisions.
#define TESSERA_REAL(name, ...) \
  if (wanted == (name)) return Operations::real<1>(type, [](auto x) { return __VA_ARGS__; })
#define TESSERA_REALS(name, ...) \
  if (wanted == (name)) return Operations::real<2>(type, [](auto a, auto b) { return __VA_ARGS__; })
#define TESSERA_WHOLES(name, ...) \
  if (wanted == (name))           \
  return Operations::whole<2>(    \
      []([[maybe_unused]] int64_t a, [[maybe_unused]] int64_t b, [[maybe_unused]] int bits) { return __VA_ARGS__; })

}  // namespace

Operations::Apply Operations::ofReal(std::string_view wanted, v1::DataType type) {
  TESSERA_REALS("addf", a + b);
  TESSERA_REALS("subf", a - b);
  TESSERA_REALS("mulf", a * b);
  TESSERA_REALS("divf", a / b);
  TESSERA_REALS("remf", std::fmod(a, b));
  TESSERA_REALS("maximumf", largerOf(a, b));
  TESSERA_REALS("minimumf", smallerOf(a, b));
  TESSERA_REALS("maxnumf", std::isnan(a) ? b : std::isnan(b) ? a : largerOf(a, b));
  TESSERA_REALS("minnumf", std::isnan(a) ? b : std::isnan(b) ? a : smallerOf(a, b));
  TESSERA_REALS("copysign", std::copysign(a, b));
  TESSERA_REALS("powf", std::pow(a, b));
  TESSERA_REALS("atan2", std::atan2(a, b));
  TESSERA_REAL("negf", -x);
  TESSERA_REAL("absf", std::fabs(x));
  TESSERA_REAL("floor", std::floor(x));
  TESSERA_REAL("ceil", std::ceil(x));
  TESSERA_REAL("trunc", std::trunc(x));
  TESSERA_REAL("round", std::round(x));
  TESSERA_REAL("roundeven", std::nearbyint(x));
  TESSERA_REAL("sqrt", std::sqrt(x));
  TESSERA_REAL("rsqrt", 1 / std::sqrt(x));
  TESSERA_REAL("cbrt", std::cbrt(x));
  TESSERA_REAL("exp", std::exp(x));
  TESSERA_REAL("exp2", std::exp2(x));
  TESSERA_REAL("expm1", std::expm1(x));
  TESSERA_REAL("log", std::log(x));
  TESSERA_REAL("log2", std::log2(x));
  TESSERA_REAL("log10", std::log10(x));
  TESSERA_REAL("log1p", std::log1p(x));
  TESSERA_REAL("sin", std::sin(x));
  TESSERA_REAL("cos", std::cos(x));
  TESSERA_REAL("tan", std::tan(x));
  TESSERA_REAL("asin", std::asin(x));
  TESSERA_REAL("acos", std::acos(x));
  TESSERA_REAL("atan", std::atan(x));
  TESSERA_REAL("sinh", std::sinh(x));
  TESSERA_REAL("cosh", std::cosh(x));
  TESSERA_REAL("tanh", std::tanh(x));
  TESSERA_REAL("asinh", std::asinh(x));
  TESSERA_REAL("acosh", std::acosh(x));
  TESSERA_REAL("atanh", std::atanh(x));
  TESSERA_REAL("erf", std::erf(x));
  TESSERA_REAL("erfc", std::erfc(x));
  if (wanted == "fma") {
    // The product of two floats is exact in double precision; the sum is rounded once more, as a fused operation does
    // except for halfway cases that double precision cannot tell.
    return Operations::real<3>(type, [](auto a, auto b, auto c) { return std::fma(a, b, c); });
  }
  return nullptr;
}

Operations::Apply Operations::ofWhole(std::string_view wanted) {
  TESSERA_WHOLES("addi", static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)));
  TESSERA_WHOLES("subi", minus(a, b));
  TESSERA_WHOLES("muli", static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
  TESSERA_WHOLES("divsi", quotient(a, b));
  TESSERA_WHOLES("divui", b == 0 ? int64_t{0} : static_cast<int64_t>(unsignedOf(a, bits) / unsignedOf(b, bits)));
  TESSERA_WHOLES("floordivsi",
                 quotient(a, b) - static_cast<int64_t>(b != 0 && remainder(a, b) != 0 && (a < 0) != (b < 0)));
  TESSERA_WHOLES("ceildivsi",
                 quotient(a, b) + static_cast<int64_t>(b != 0 && remainder(a, b) != 0 && (a < 0) == (b < 0)));
  TESSERA_WHOLES("ceildivui", b == 0 || a == 0
                                  ? int64_t{0}
                                  : static_cast<int64_t>((unsignedOf(a, bits) - 1) / unsignedOf(b, bits) + 1));
  TESSERA_WHOLES("remsi", remainder(a, b));
  TESSERA_WHOLES("remui", b == 0 ? int64_t{0} : static_cast<int64_t>(unsignedOf(a, bits) % unsignedOf(b, bits)));
  TESSERA_WHOLES("andi", a & b);
  TESSERA_WHOLES("ori", a | b);
  TESSERA_WHOLES("xori", a ^ b);
  TESSERA_WHOLES("shli", unsignedOf(b, bits) >= static_cast<uint64_t>(bits)
                             ? int64_t{0}
                             : static_cast<int64_t>(static_cast<uint64_t>(a) << unsignedOf(b, bits)));
  TESSERA_WHOLES("shrsi", signedOf(a, bits) >> std::min<uint64_t>(unsignedOf(b, bits), 63));
  TESSERA_WHOLES("shrui", unsignedOf(b, bits) >= static_cast<uint64_t>(bits)
                              ? int64_t{0}
                              : static_cast<int64_t>(unsignedOf(a, bits) >> unsignedOf(b, bits)));
  TESSERA_WHOLES("maxsi", signedOf(a, bits) > signedOf(b, bits) ? a : b);
  TESSERA_WHOLES("minsi", signedOf(a, bits) < signedOf(b, bits) ? a : b);
  TESSERA_WHOLES("maxui", unsignedOf(a, bits) > unsignedOf(b, bits) ? a : b);
  TESSERA_WHOLES("minui", unsignedOf(a, bits) < unsignedOf(b, bits) ? a : b);
  if (wanted == "absi")
    return Operations::whole<1>([](int64_t a, int bits) { return signedOf(a, bits) < 0 ? minus(0, a) : a; });
  return nullptr;
}
#undef TESSERA_REAL
#undef TESSERA_REALS
#undef TESSERA_WHOLES

Operations::Apply Operations::ofConversion(std::string_view name) {
  if (name.starts_with("cmpf.")) return compareReals;
  if (name.starts_with("cmpi.")) return compareWholes;
  if (name == "select") return select;
  if (name == "extf" || name == "truncf") return convertReal;
  if (name == "sitofp") return fromWhole<true>;
  if (name == "uitofp") return fromWhole<false>;
  if (name == "fptosi") return toWhole<true>;
  if (name == "fptoui") return toWhole<false>;
  if (name == "extui" || name == "index_castui") return resize<false>;
  if (name == "bitcast") return bits;
  return resize<true>;  // extsi, trunci, index_cast
}

Evaluator::Evaluator(const SpatialNest& nest) : values_(nest.accesses.size() + nest.body.size()) {
  for (size_t o = 0; o < nest.body.size(); ++o) {
    const SpatialOperation& operation = nest.body[o];
    const auto result = static_cast<int>(nest.accesses.size() + o);
    if (operation.name == "index") {
      indices_.push_back({result, operation.loop});
      continue;
    }
    if (operation.name == "constant") {
      const int64_t first = 0;
      readStrip(operation.dtype, reinterpret_cast<const uint8_t*>(operation.constant.data()),
                {.positions = &first, .regular = true}, kStrip, value(result));
      continue;
    }
    Instruction instruction;
    instruction.operands = operation.operands;
    instruction.result = result;
    instruction.predicate = predicateOf(operation.name);
    instruction.to = operation.dtype;
    instruction.to_bits = widthOf(operation.dtype);
    if (!operation.operands.empty()) instruction.from = nest.typeOf(operation.operands[0]);
    instruction.from_bits = widthOf(instruction.from);
    if (operation.name == "load") {
      instruction.access = &operation.access;
    } else {
      instruction.apply = Operations::ofReal(operation.name, operation.dtype);
      if (instruction.apply == nullptr) instruction.apply = Operations::ofWhole(operation.name);
      if (instruction.apply == nullptr) instruction.apply = Operations::ofConversion(operation.name);
    }
    instructions_.push_back(std::move(instruction));
  }
}

absl::Status Evaluator::load(const Instruction& instruction, int count, std::span<uint8_t* const> buffers,
                             std::span<const int64_t> elements) {
  const SpatialAccess& access = *instruction.access;
  const auto buffer = static_cast<size_t>(access.buffer);
  std::array<int64_t, kStrip> positions{};
  for (int i = 0; i < count; ++i) {
    __int128 position = access.offset;
    for (size_t d = 0; d < instruction.operands.size(); ++d)
      position += static_cast<__int128>(access.strides[d]) * value(instruction.operands[d]).whole()[i];
    if (position < 0 || position >= elements[buffer]) {
      const auto shown = static_cast<int64_t>(std::clamp<__int128>(position, INT64_MIN, INT64_MAX));
      return absl::OutOfRangeError(absl::StrCat("point ", i, " loads element ", shown, " of buffer ", access.buffer,
                                                ", which has ", elements[buffer]));
    }
    positions[static_cast<size_t>(i)] = static_cast<int64_t>(position);
  }
  readStrip(access.dtype, buffers[buffer], {.positions = positions.data()}, count, value(instruction.result));
  return absl::OkStatus();
}

absl::Status Evaluator::run(int count, std::span<uint8_t* const> buffers, std::span<const int64_t> elements) {
  std::array<const StripValue*, 3> operands{};
  for (const Instruction& instruction : instructions_) {
    if (instruction.apply == nullptr) {
      if (absl::Status status = load(instruction, count, buffers, elements); !status.ok()) return status;
      continue;
    }
    for (size_t i = 0; i < instruction.operands.size(); ++i) operands[i] = &value(instruction.operands[i]);
    instruction.apply(instruction, operands.data(), value(instruction.result), count);
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::simulator
