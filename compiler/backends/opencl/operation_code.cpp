#include "compiler/backends/opencl/operation_code.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::widthOf;

/// A template of an expression: $0, $1, $2 are the operands; $T is the result's type and $U the unsigned type.
struct Form {
  std::string_view name;
  std::string_view text;
};

// Of floating-point numbers.
constexpr Form kReal[] = {
    {"addf", "$0 + $1"},
    {"subf", "$0 - $1"},
    {"mulf", "$0 * $1"},
    {"divf", "$0 / $1"},
    {"remf", "fmod($0, $1)"},
    {"maximumf", "t_max_$T($0, $1)"},
    {"minimumf", "t_min_$T($0, $1)"},
    {"maxnumf", "isnan($0) ? $1 : isnan($1) ? $0 : t_max_$T($0, $1)"},
    {"minnumf", "isnan($0) ? $1 : isnan($1) ? $0 : t_min_$T($0, $1)"},
    {"copysign", "copysign($0, $1)"},
    {"powf", "pow($0, $1)"},
    {"atan2", "atan2($0, $1)"},
    {"negf", "-$0"},
    {"absf", "fabs($0)"},
    {"floor", "floor($0)"},
    {"ceil", "ceil($0)"},
    {"trunc", "trunc($0)"},
    {"round", "round($0)"},
    {"roundeven", "rint($0)"},
    {"sqrt", "sqrt($0)"},
    {"rsqrt", "1 / sqrt($0)"},
    {"cbrt", "cbrt($0)"},
    {"exp", "exp($0)"},
    {"exp2", "exp2($0)"},
    {"expm1", "expm1($0)"},
    {"log", "log($0)"},
    {"log2", "log2($0)"},
    {"log10", "log10($0)"},
    {"log1p", "log1p($0)"},
    {"sin", "sin($0)"},
    {"cos", "cos($0)"},
    {"tan", "tan($0)"},
    {"asin", "asin($0)"},
    {"acos", "acos($0)"},
    {"atan", "atan($0)"},
    {"sinh", "sinh($0)"},
    {"cosh", "cosh($0)"},
    {"tanh", "tanh($0)"},
    {"asinh", "asinh($0)"},
    {"acosh", "acosh($0)"},
    {"atanh", "atanh($0)"},
    {"erf", "erf($0)"},
    {"erfc", "erfc($0)"},
    {"fma", "fma($0, $1, $2)"},
};

// Of integers of at least 8 bits.
constexpr Form kWhole[] = {
    {"addi", "($T)(($U)$0 + ($U)$1)"},
    {"subi", "($T)(($U)$0 - ($U)$1)"},
    {"muli", "($T)(($U)$0 * ($U)$1)"},
    {"divsi", "t_div_$T($0, $1)"},
    {"divui", "t_divu_$T($0, $1)"},
    {"floordivsi", "t_floordiv_$T($0, $1)"},
    {"ceildivsi", "t_ceildiv_$T($0, $1)"},
    {"ceildivui", "t_ceildivu_$T($0, $1)"},
    {"remsi", "t_rem_$T($0, $1)"},
    {"remui", "t_remu_$T($0, $1)"},
    {"andi", "($T)($0 & $1)"},
    {"ori", "($T)($0 | $1)"},
    {"xori", "($T)($0 ^ $1)"},
    {"shli", "t_shl_$T($0, $1)"},
    {"shrsi", "t_shr_$T($0, $1)"},
    {"shrui", "t_shru_$T($0, $1)"},
    {"maxsi", "$0 > $1 ? $0 : $1"},
    {"minsi", "$0 < $1 ? $0 : $1"},
    {"maxui", "($U)$0 > ($U)$1 ? $0 : $1"},
    {"minui", "($U)$0 < ($U)$1 ? $0 : $1"},
    {"absi", "$0 < 0 ? ($T)(($U)0 - ($U)$0) : $0"},
};

// Of bools: numbers of one bit. As a signed number a set bool is -1.
constexpr Form kBool[] = {
    {"addi", "$0 ^ $1"},   {"subi", "$0 ^ $1"},  {"muli", "$0 & $1"},  {"divsi", "$0 & $1"}, {"divui", "$0 & $1"},
    {"andi", "$0 & $1"},   {"ori", "$0 | $1"},   {"xori", "$0 ^ $1"},  {"shli", "$0 & !$1"}, {"shrsi", "$0"},
    {"shrui", "$0 & !$1"}, {"maxsi", "$0 & $1"}, {"minsi", "$0 | $1"}, {"maxui", "$0 | $1"}, {"minui", "$0 & $1"},
    {"absi", "$0"},        {"remsi", "0"},       {"remui", "0"},
};

// By the number of the predicate.
constexpr std::array<std::string_view, 16> kCompareReal = {
    "0",
    "$0 == $1",
    "$0 > $1",
    "$0 >= $1",
    "$0 < $1",
    "$0 <= $1",
    "$0 < $1 || $0 > $1",
    "!isnan($0) && !isnan($1)",
    "!($0 < $1 || $0 > $1)",
    "!($0 <= $1)",
    "!($0 < $1)",
    "!($0 >= $1)",
    "!($0 > $1)",
    "$0 != $1",
    "isnan($0) || isnan($1)",
    "1",
};
constexpr std::array<std::string_view, 10> kCompareWhole = {
    "$0 == $1", "$0 != $1",        "$0 < $1",          "$0 <= $1",        "$0 > $1",
    "$0 >= $1", "($U)$0 < ($U)$1", "($U)$0 <= ($U)$1", "($U)$0 > ($U)$1", "($U)$0 >= ($U)$1",
};

template <size_t kSize>
std::string_view textOf(const Form (&forms)[kSize], std::string_view name) {
  for (const Form& form : forms)
    if (form.name == name) return form.text;
  return {};
}

std::string filled(std::string_view form, v1::DataType type, std::span<const Operand> operands) {
  const auto operand = [&](size_t i) { return i < operands.size() ? operands[i].text : std::string(); };
  return absl::StrReplaceAll({form.data(), form.size()}, {{"$0", operand(0)},
                                                          {"$1", operand(1)},
                                                          {"$2", operand(2)},
                                                          {"$T", valueType(type)},
                                                          {"$U", unsignedValueType(type)}});
}

/// The operand as a signed number.
std::string signedText(const Operand& operand) {
  return operand.dtype == v1::DATA_TYPE_BOOL ? absl::StrCat("-", operand.text) : operand.text;
}

/// The operand as an unsigned number of 64 bits or fewer.
std::string unsignedText(const Operand& operand) {
  return absl::StrCat("(", unsignedValueType(operand.dtype), ")", operand.text);
}

std::string compareCode(int predicate, const Operand& left, const Operand& right) {
  if (left.dtype == v1::DATA_TYPE_BOOL) {
    const std::array<Operand, 2> numbers = {Operand{v1::DATA_TYPE_I32, signedText(left)},
                                            Operand{v1::DATA_TYPE_I32, signedText(right)}};
    return filled(kCompareWhole[static_cast<size_t>(predicate)], v1::DATA_TYPE_I32, numbers);
  }
  const std::array<Operand, 2> both = {left, right};
  return filled(isFloatingPoint(left.dtype) ? kCompareReal[static_cast<size_t>(predicate)]
                                            : kCompareWhole[static_cast<size_t>(predicate)],
                left.dtype, both);
}

std::string wholeToReal(v1::DataType result, const Operand& from, bool is_signed) {
  const std::string number = is_signed ? signedText(from) : unsignedText(from);
  // Numbers of up to 16 bits are exact in single precision.
  const bool twice = (result == v1::DATA_TYPE_F16 || result == v1::DATA_TYPE_BF16) && widthOf(from.dtype) > 16;
  if (twice) return roundedCode(result, absl::StrCat(is_signed ? "t_odd_long(" : "t_odd_ulong(", number, ")"));
  return roundedCode(result, absl::StrCat("(", valueType(result), ")(", number, ")"));
}

/// Truncates towards zero and saturates; 0 for NaN.
std::string realToWhole(v1::DataType result, const Operand& from, bool is_signed) {
  if (result == v1::DATA_TYPE_BOOL)
    return is_signed ? absl::StrCat(from.text, " <= -1") : absl::StrCat(from.text, " >= 1");
  const char* const to = is_signed ? valueType(result) : unsignedValueType(result);
  const std::string converted = absl::StrCat("convert_", to, "_sat(", from.text, ")");
  return absl::StrCat("isnan(", from.text, ") ? (", valueType(result), ")0 : (", valueType(result), ")", converted);
}

std::string resized(v1::DataType result, const Operand& from, bool is_signed) {
  const std::string number = is_signed ? signedText(from) : unsignedText(from);
  if (result == v1::DATA_TYPE_BOOL) return absl::StrCat("(int)((", number, ") & 1)");
  return absl::StrCat("(", valueType(result), ")(", number, ")");
}

std::string realToReal(v1::DataType result, const Operand& from) {
  if (result == v1::DATA_TYPE_F64) return absl::StrCat("(double)", from.text);
  if (from.dtype != v1::DATA_TYPE_F64) return roundedCode(result, from.text);
  return result == v1::DATA_TYPE_F32 ? absl::StrCat("(float)", from.text)
                                     : roundedCode(result, absl::StrCat("t_odd_double(", from.text, ")"));
}

/// The same bits as another type of the same width.
std::string bitsCode(v1::DataType result, const Operand& from) {
  std::string bits = from.text;
  if (from.dtype == v1::DATA_TYPE_F16) bits = absl::StrCat("t_f16_bits(", from.text, ")");
  if (from.dtype == v1::DATA_TYPE_BF16) bits = absl::StrCat("t_bf16_bits(", from.text, ")");
  if (result == v1::DATA_TYPE_F16) return absl::StrCat("t_f16((ushort)", bits, ")");
  if (result == v1::DATA_TYPE_BF16) return absl::StrCat("t_bf16((ushort)", bits, ")");
  if (result == v1::DATA_TYPE_BOOL) return bits;
  return absl::StrCat("as_", valueType(result), "(", bits, ")");
}

}  // namespace

std::string operationCode(std::string_view name, v1::DataType result, std::span<const Operand> operands) {
  if (name.starts_with("cmpf.") || name.starts_with("cmpi."))
    return compareCode(simulator::predicateOf(name), operands[0], operands[1]);
  if (name == "select") return absl::StrCat(operands[0].text, " ? ", operands[1].text, " : ", operands[2].text);
  if (name == "extf" || name == "truncf") return realToReal(result, operands[0]);
  if (name == "sitofp") return wholeToReal(result, operands[0], true);
  if (name == "uitofp") return wholeToReal(result, operands[0], false);
  if (name == "fptosi") return realToWhole(result, operands[0], true);
  if (name == "fptoui") return realToWhole(result, operands[0], false);
  if (name == "extui" || name == "index_castui") return resized(result, operands[0], false);
  if (name == "extsi" || name == "trunci" || name == "index_cast") return resized(result, operands[0], true);
  if (name == "bitcast") return bitsCode(result, operands[0]);
  if (const std::string_view form = textOf(kReal, name); !form.empty())
    return roundedCode(result, filled(form, result, operands));
  const std::string_view form = result == v1::DATA_TYPE_BOOL ? textOf(kBool, name) : textOf(kWhole, name);
  return form.empty() ? std::string() : filled(form, result, operands);
}

}  // namespace tessera::compiler::opencl
