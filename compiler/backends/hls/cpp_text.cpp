#include "compiler/backends/hls/cpp_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

struct Operation {
  std::string_view name, text;
};
// $0, $1, $2 are the operands, $R is the result's type, $S and $U are the signed and the unsigned type of the operands'
// width, $V the unsigned type in which sums of that width cannot overflow.
constexpr std::array<Operation, 58> kOperations = {{
    {"addf", "$0 + $1"},
    {"subf", "$0 - $1"},
    {"mulf", "$0 * $1"},
    {"divf", "$0 / $1"},
    {"remf", "std::fmod($0, $1)"},
    {"maximumf", "larger($0, $1)"},
    {"minimumf", "smaller($0, $1)"},
    {"maxnumf", "std::fmax($0, $1)"},
    {"minnumf", "std::fmin($0, $1)"},
    {"negf", "-$0"},
    {"absf", "std::fabs($0)"},
    {"copysign", "std::copysign($0, $1)"},
    {"fma", "std::fma($0, $1, $2)"},
    {"floor", "std::floor($0)"},
    {"ceil", "std::ceil($0)"},
    {"trunc", "std::trunc($0)"},
    {"round", "std::round($0)"},
    {"roundeven", "std::rint($0)"},
    {"sqrt", "std::sqrt($0)"},
    {"rsqrt", "$R(1) / std::sqrt($0)"},
    {"exp", "std::exp($0)"},
    {"exp2", "std::exp2($0)"},
    {"log", "std::log($0)"},
    {"tanh", "std::tanh($0)"},
    {"sin", "std::sin($0)"},
    {"cos", "std::cos($0)"},
    {"erf", "std::erf($0)"},
    {"powf", "std::pow($0, $1)"},
    {"addi", "$V($0) + $V($1)"},
    {"subi", "$V($0) - $V($1)"},
    {"muli", "$V($0) * $V($1)"},
    {"divsi", "quotient<$S>($0, $1)"},
    {"divui", "quotient<$U>($0, $1)"},
    {"remsi", "remainder_of<$S>($0, $1)"},
    {"remui", "remainder_of<$U>($0, $1)"},
    {"floordivsi", "floor_quotient<$S>($0, $1)"},
    {"andi", "$0 & $1"},
    {"ori", "$0 | $1"},
    {"xori", "$0 ^ $1"},
    {"maxsi", "$S($0) > $S($1) ? $0 : $1"},
    {"minsi", "$S($0) < $S($1) ? $0 : $1"},
    {"maxui", "$U($0) > $U($1) ? $0 : $1"},
    {"minui", "$U($0) < $U($1) ? $0 : $1"},
    {"absi", "$S($0) < 0 ? $V(0) - $V($0) : $V($0)"},
    {"select", "$0 ? $1 : $2"},
    {"extf", "$0"},
    {"truncf", "$0"},
    {"extsi", "$S($0)"},
    {"extui", "$U($0)"},
    {"trunci", "$0"},
    {"index_cast", "$S($0)"},
    {"index_castui", "$U($0)"},
    {"sitofp", "$S($0)"},
    {"uitofp", "$U($0)"},
    {"fptosi", "saturated<$R>($0)"},
    {"fptoui", "saturated<$R>($0)"},
    {"shli", "shifted_left<$U>($0, $1)"},
    {"shrsi", "shifted_right<$S>($0, $1)"},
}};

/// Predicates of comparisons; those of reals after a point, "ult" on integers is unsigned.
constexpr std::array<Operation, 22> kComparisons = {{{"cmpf.oeq", "$0 == $1"},
                                                     {"cmpf.ogt", "$0 > $1"},
                                                     {"cmpf.oge", "$0 >= $1"},
                                                     {"cmpf.olt", "$0 < $1"},
                                                     {"cmpf.ole", "$0 <= $1"},
                                                     {"cmpf.one", "$0 < $1 || $0 > $1"},
                                                     {"cmpf.ord", "$0 == $0 && $1 == $1"},
                                                     {"cmpf.ueq", "!($0 < $1 || $0 > $1)"},
                                                     {"cmpf.ugt", "!($0 <= $1)"},
                                                     {"cmpf.uge", "!($0 < $1)"},
                                                     {"cmpf.ult", "!($0 >= $1)"},
                                                     {"cmpf.ule", "!($0 > $1)"},
                                                     {"cmpf.une", "$0 != $1"},
                                                     {"cmpf.uno", "$0 != $0 || $1 != $1"},
                                                     {"cmpi.eq", "$U($0) == $U($1)"},
                                                     {"cmpi.ne", "$U($0) != $U($1)"},
                                                     {"cmpi.slt", "$S($0) < $S($1)"},
                                                     {"cmpi.sle", "$S($0) <= $S($1)"},
                                                     {"cmpi.sgt", "$S($0) > $S($1)"},
                                                     {"cmpi.sge", "$S($0) >= $S($1)"},
                                                     {"cmpi.ult", "$U($0) < $U($1)"},
                                                     {"cmpi.uge", "$U($0) >= $U($1)"}}};

std::string integerType(v1::DataType type, bool is_signed) {
  if (type == v1::DATA_TYPE_BOOL) return "bool";
  return absl::StrCat(is_signed ? "int" : "uint", 8 * elementBytes(type), "_t");
}

}  // namespace

absl::StatusOr<std::string> cppType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F32:
      return "float";
    case v1::DATA_TYPE_F64:
      return "double";
    case v1::DATA_TYPE_F16:
      return "half_t";
    case v1::DATA_TYPE_BF16:
    case v1::DATA_TYPE_UNSPECIFIED:
      return absl::UnimplementedError(absl::StrCat("designs have no elements of type ", elementText(type)));
    default:
      return integerType(type, elementText(type)[0] != 'u');
  }
}

absl::StatusOr<std::string> cppLiteral(const std::string& bytes, v1::DataType type) {
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
  };
  const auto real = [](double value, const char* suffix) -> std::string {
    if (std::isnan(value)) return "NAN";
    if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
    std::string text = absl::StrFormat("%.17g", value);
    if (suffix[0] != '\0') text = absl::StrFormat("%.9g", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text + suffix;
  };
  switch (type) {
    case v1::DATA_TYPE_F32:
      return real(static_cast<double>(as(float{})), "f");
    case v1::DATA_TYPE_F64:
      return real(as(double{}), "");
    case v1::DATA_TYPE_F16: {
      const auto bits = as(uint16_t{});
      const int exponent = bits >> 10 & 31, fraction = bits & 1023;
      double value = exponent == 0    ? std::ldexp(fraction, -24)
                     : exponent == 31 ? (fraction != 0 ? NAN : HUGE_VAL)
                                      : std::ldexp(1024 + fraction, exponent - 25);
      return absl::StrCat("half_t(", real((bits & 0x8000) != 0 ? -value : value, "f"), ")");
    }
    case v1::DATA_TYPE_BF16:
    case v1::DATA_TYPE_UNSPECIFIED:
      return cppType(type).status();
    case v1::DATA_TYPE_BOOL:
      return as(uint8_t{}) != 0 ? "true" : "false";
    default:
      break;
  }
  const auto count = static_cast<size_t>(elementBytes(type));
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), count));
  if (elementText(type)[0] == 'u') return absl::StrCat(number, "U", count == 8 ? "LL" : "");
  const int unused = 64 - 8 * static_cast<int>(count);
  const int64_t value = static_cast<int64_t>(number << unused) >> unused;
  if (value == INT64_MIN) return "INT64_MIN";
  return absl::StrCat(value, count == 8 ? "LL" : "");
}

absl::StatusOr<std::string> cppExpression(const simulator::SpatialNest& nest, size_t number,
                                          const std::vector<std::string>& operands) {
  const simulator::SpatialOperation& op = nest.body[number];
  if (op.name == "constant") return cppLiteral(op.constant, op.dtype);
  const auto* found = std::ranges::find(kOperations, op.name, &Operation::name);
  std::string_view text = found == kOperations.end() ? "" : found->text;
  for (const Operation& each : kComparisons)
    if (each.name == op.name) text = each.text;
  if (text.empty() || op.operands.empty())
    return absl::UnimplementedError(absl::StrCat("nest ", nest.name, ": operation ", op.name, " has no C++ form"));
  TESSERA_ASSIGN_OR_RETURN(const std::string result, cppType(op.dtype));
  const v1::DataType from = nest.typeOf(op.operands.back());
  const bool whole = !isFloatingPoint(from);
  const std::string width = whole && elementBytes(from) == 8 ? "uint64_t" : "uint32_t";
  std::string expression;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      expression += text[i];
      continue;
    }
    const char kind = text[++i];
    if (kind == 'R')
      expression += result;
    else if (kind == 'S')
      expression += whole ? integerType(from, true) : "";
    else if (kind == 'U')
      expression += whole ? integerType(from, false) : "";
    else if (kind == 'V')
      expression += width;
    else
      expression += operands[static_cast<size_t>(kind - '0')];
  }
  if (op.name == "trunci" && op.dtype == v1::DATA_TYPE_BOOL) return absl::StrCat("(", operands[0], " & 1) != 0");
  return absl::StrCat(result, "(", expression, ")");
}

absl::StatusOr<std::string> neutralLiteral(const std::string& operation, v1::DataType type) {
  TESSERA_ASSIGN_OR_RETURN(const std::string name, cppType(type));
  if (operation == "addf" || operation == "addi") return name + "(0)";
  if (operation == "mulf" || operation == "muli") return name + "(1)";
  if (operation == "maximumf" || operation == "maxnumf") return name + "(-INFINITY)";
  if (operation == "minimumf" || operation == "minnumf") return name + "(INFINITY)";
  const bool is_unsigned = operation.ends_with("ui");
  const std::string limits = absl::StrCat("std::numeric_limits<", integerType(type, !is_unsigned), ">::");
  if (operation.starts_with("max")) return absl::StrCat(name, "(", limits, "min())");
  return absl::StrCat(name, "(", limits, "max())");
}

std::vector<std::string> cppLoopNames(const simulator::SpatialNest& nest) {
  std::vector<std::string> names;
  for (const loopnest::Loop& loop : nest.loops) {
    std::string name = loop.name;
    for (char& c : name)
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
    if (std::ranges::count(names, name) > 0) absl::StrAppend(&name, "_", names.size());
    names.push_back(std::move(name));
  }
  return names;
}

std::string cppSum(const std::vector<int64_t>& coefficients, const std::vector<std::string>& names, int64_t constant) {
  std::string text;
  for (size_t l = 0; l < coefficients.size(); ++l) {
    const int64_t coefficient = coefficients[l];
    if (coefficient == 0) continue;
    const char* sign = coefficient < 0 ? (text.empty() ? "-" : " - ") : (text.empty() ? "" : " + ");
    const int64_t size = coefficient < 0 ? -coefficient : coefficient;
    absl::StrAppend(&text, sign, size == 1 ? "" : absl::StrCat(size, " * "), names[l]);
  }
  if (text.empty()) return absl::StrCat(constant);
  if (constant != 0) absl::StrAppend(&text, constant < 0 ? " - " : " + ", constant < 0 ? -constant : constant);
  return text;
}

std::string cppSubscript(const loopnest::Subscript& subscript, const std::vector<std::string>& names) {
  const auto sum = [&](const std::vector<loopnest::Term>& terms, int64_t constant) {
    std::vector<int64_t> coefficients(names.size());
    for (const loopnest::Term& term : terms) coefficients[static_cast<size_t>(term.loop)] += term.coefficient;
    return cppSum(coefficients, names, constant);
  };
  std::vector<std::string> parts;
  if (!subscript.terms.empty() || subscript.constant != 0 || subscript.digits.empty())
    parts.push_back(sum(subscript.terms, subscript.constant));
  for (const loopnest::Digit& digit : subscript.digits) {
    std::string text =
        absl::StrCat("floor_quotient<int64_t>(", sum(digit.terms, digit.constant), ", ", digit.divisor, ")");
    if (digit.modulus != 0) text = absl::StrCat("floor_remainder(", text, ", ", digit.modulus, ")");
    parts.push_back(digit.coefficient == 1 ? text : absl::StrCat(digit.coefficient, " * ", text));
  }
  return absl::StrJoin(parts, " + ");
}

const char* cppPrelude() {
  return R"(#ifndef TESSERA_SCALAR_OPERATIONS
#define TESSERA_SCALAR_OPERATIONS
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#ifdef __SYNTHESIS__
#include "hls_half.h"
typedef half half_t;
#define TESSERA_TILE
#else
#ifdef __FLT16_MAX__
typedef _Float16 half_t;
#endif
// Tiles are memories of the design; a program has no room for them on its stack.
#define TESSERA_TILE static
#endif

namespace {

// Scalar operations with the results that Tessera defines where C++ leaves them open.
template <typename T>
T larger(T a, T b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}
template <typename T>
T smaller(T a, T b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
}
template <typename T>
T quotient(T a, T b) {
  if (b == 0) return 0;
  return std::numeric_limits<T>::is_signed && b == T(-1) ? T(uint64_t(0) - uint64_t(a)) : T(a / b);
}
template <typename T>
T remainder_of(T a, T b) {
  return b == 0 || (std::numeric_limits<T>::is_signed && b == T(-1)) ? T(0) : T(a % b);
}
template <typename T>
T floor_quotient(T a, T b) {
  const T whole = quotient(a, b);
  return remainder_of(a, b) != 0 && (a < 0) != (b < 0) ? T(whole - 1) : whole;
}
inline int64_t floor_remainder(int64_t a, int64_t b) { return a - floor_quotient<int64_t>(a, b) * b; }
template <typename T>
T shifted_left(T a, T b) {
  return uint64_t(b) >= 8 * sizeof(T) ? T(0) : T(uint64_t(a) << b);
}
template <typename T>
T shifted_right(T a, T b) {
  return uint64_t(b) >= 8 * sizeof(T) ? T(a < 0 ? -1 : 0) : T(a >> b);
}
template <typename T, typename Real>
T saturated(Real value) {
  if (value != value) return 0;
  if (value >= Real(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return value <= Real(std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min() : T(value);
}

}  // namespace
#endif
)";
}

}  // namespace tessera::compiler::hls
